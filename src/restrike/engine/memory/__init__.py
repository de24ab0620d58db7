"""What is in a device's memory: measured sizes, one budget, residency of components, admission."""
