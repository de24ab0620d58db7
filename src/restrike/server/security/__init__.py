"""Who may ask a server for what: hosts, origins, tokens, limits, places. Nothing here runs a job."""
