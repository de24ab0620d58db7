"""Tests of planning, running and reuse, on the smallest card and on tasks of their own."""
