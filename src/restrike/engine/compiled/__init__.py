"""Calls of a denoiser that compiled code answers: which are armed, and which of them answers a forward.

Knows nothing of how they were compiled, packed or found.
"""
