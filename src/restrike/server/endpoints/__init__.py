"""Endpoints of the operator's own, and cards, as jobs of a server: listed, checked, called. Runs none."""
