"""Driven loops: state machines that the engine advances one step at a time.

A loop owns the semantics of its model; it never runs a step itself and keeps nothing between requests.
"""
