"""Workflows: files of named steps, planned and run so that only what an edit reaches runs again."""
