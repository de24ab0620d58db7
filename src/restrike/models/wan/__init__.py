"""Wan 2.1 and 2.2: text and image to video, driven by Restrike's own loop on published weights.

Components are built by diffusers and transformers, which are imported when a component is loaded.
"""
