"""Steps kept as graphs and replayed without Python: keyed, proved, measured, then armed.

Nothing outside this package touches a graph; a step that cannot be captured runs eagerly and says why.
"""
