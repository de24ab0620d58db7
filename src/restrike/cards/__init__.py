"""Model cards: what a model is made of, how it samples, and what it refuses.

A card is data; this package imports no torch and loads no weights.
"""
