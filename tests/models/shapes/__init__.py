"""The embedded text-to-video model."""
