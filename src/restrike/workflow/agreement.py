"""What is raised when a plan that was agreed to is no longer the one that would run. Makes no plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from restrike.errors import Conflict

if TYPE_CHECKING:
    from restrike.workflow.plan import Plan


class PlanChanged(Conflict):
    """What would run is not what was agreed to; `plan` is what would run now."""

    def __init__(self, message: str, plan: Plan) -> None:
        super().__init__(message)
        self.plan = plan
