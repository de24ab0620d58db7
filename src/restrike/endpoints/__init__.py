"""Endpoints: serving code of a user's own, declared so that it can be checked, run and compiled for.

Nothing here knows how anything is compiled.
"""
