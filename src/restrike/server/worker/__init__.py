"""A worker: the process that runs jobs on one device. It is started and watched by `server.pool`."""
