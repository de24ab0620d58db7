"""A card of a package that fails as it is imported."""

raise RuntimeError("no such device")
