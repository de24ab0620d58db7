"""A cell: what decides it, how it is packed into one file, and how that file is checked before use."""
