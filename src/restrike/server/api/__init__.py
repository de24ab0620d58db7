"""The REST interface: one file a resource. It checks forms and scopes; all else is asked of the service."""

from restrike.server.api import assets, endpoints, health, jobs, machine, operating, plans, runs, workflows

ROUTERS = (
    jobs.router,
    endpoints.router,
    plans.router,
    workflows.router,
    assets.router,
    runs.router,
    machine.router,
    operating.router,
    health.router,
)
