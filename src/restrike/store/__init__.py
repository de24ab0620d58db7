"""The store: values kept by key, shared by all processes of a machine.

A thing is sealed or absent; what a key says is compared in full before anything is handed out. Imports only
keys and errors, and neither numpy nor torch until a value of theirs is met.
"""
