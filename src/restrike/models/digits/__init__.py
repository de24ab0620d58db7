"""The smallest card: handwritten digits of 8x8 pixels, small enough to be the fixture of every test."""
