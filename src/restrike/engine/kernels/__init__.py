"""The registry of kernels: (op, device kind, architecture, variant) -> kernel, and which one serves here.

A kernel that is not proved equal to its reference and measured faster than it is never used.
"""
