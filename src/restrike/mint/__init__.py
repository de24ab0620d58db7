"""Compiles the graphs of a card once, seals them as cells, and adopts them elsewhere."""
