"""Solvers of the flow ODE and SDE: plans of coefficient tensors, and pure updates that read them.

A solver is a value shared by all requests; what changes between steps travels as tensors.
"""
