"""Talks to a server from Python, at once or as coroutines. It computes nothing and imports no torch."""

from restrike.client.asked import Call, Generation, Terms, Workflow
from restrike.workflow.agreement import PlanChanged

__all__ = ["Call", "Generation", "PlanChanged", "Terms", "Workflow"]
