"""What actions compute: one module a kind of step. Each says what decides its output, and runs it."""
