"""Jobs: what was accepted, in which state it is, and all that happened to it. Starts no process."""
