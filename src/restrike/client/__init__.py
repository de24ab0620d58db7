"""Talks to a server from Python, at once or as coroutines. It computes nothing and imports no torch."""

from restrike.client.asked import Generation, Terms, Workflow
from restrike.workflow.agreement import PlanChanged

__all__ = ["Generation", "PlanChanged", "Terms", "Workflow"]
