"""Training of the embedded model: `python -m restrike.models.shapes.train --stage vae|dit|decoder`.

Draws its data as it goes, keeps its checkpoints in a folder of its own, and serves no request.
"""
