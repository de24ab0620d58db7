"""The server: a durable queue, one worker process per device, and the interfaces to them.

It runs nothing by itself; a job is run by a worker through the same session as the command line's.
"""
