"""Another scheduler for a loaded pipeline, made from the configuration of its own."""

from __future__ import annotations

import inspect
from typing import Any

from restrike.errors import Refused
from restrike.models.pipeline.options import Scheduler
from restrike.models.pipeline.scope import pipelines_in


def with_scheduler(pipeline: Any, chosen: Scheduler) -> None:
    """Replace the pipeline's scheduler, everywhere that it is used.

    Raises:
        Refused: the pipeline has none of that name, there is no such class, or it has no such option.
    """
    import diffusers
    from diffusers.schedulers.scheduling_utils import SchedulerMixin

    own = getattr(pipeline, "scheduler", None)
    if own is None:
        raise Refused(f"{type(pipeline).__name__} has no scheduler (it has {', '.join(pipeline.components)})")
    found = getattr(diffusers, chosen.name, None)
    if not (isinstance(found, type) and issubclass(found, SchedulerMixin)):
        raise Refused(f"the installed diffusers {diffusers.__version__} has no scheduler '{chosen.name}'")
    known = inspect.signature(found).parameters
    unknown = [name for name in chosen.options if name not in known]
    if unknown:
        raise Refused(
            f"{chosen.name} has no option {', '.join(map(repr, unknown))} (it has {', '.join(known)})"
        )
    try:
        made = found.from_config(own.config, **chosen.options)  # pyright: ignore[reportAttributeAccessIssue]
    except (ValueError, TypeError, ImportError, NotImplementedError) as error:
        raise Refused(f"{chosen.name} refuses its options: {' '.join(str(error).split())}") from error
    for part in pipelines_in(pipeline):
        for name, value in list(part.components.items()):
            if value is own:
                part.register_modules(**{name: made})
