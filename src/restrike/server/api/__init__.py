"""The REST interface: one file a resource. It checks forms and scopes; all else is asked of the service."""

from restrike.server.api import health, jobs, plans

ROUTERS = (jobs.router, plans.router, health.router)
