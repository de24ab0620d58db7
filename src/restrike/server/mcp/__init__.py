"""The Model Context Protocol: an agent's tools over the same jobs as everyone's. Checks nothing twice."""
