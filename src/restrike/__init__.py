"""Restrike: a runtime for diffusion models that never computes the same thing twice."""
