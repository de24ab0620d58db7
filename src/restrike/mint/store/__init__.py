"""Where cells are kept: a folder shared by processes, a second tier behind any URL, and the ways between.

No cell is handed out that was not verified in that very moment.
"""
