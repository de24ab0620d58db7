"""The engine: loads cards, drives their loops step by step, and hands out pictures.

It knows no model; it executes what loops plan.
"""
