"""Weights that change under a running engine: adapters, syncs, and the versions that tell them apart."""
