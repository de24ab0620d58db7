"""Lets the model libraries in, in quiet: their bars and hints would run through what the user is shown.

It keeps their warnings, which can tell of weights that do not fit, and puts every setting back.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from restrike.errors import Refused

# The first says for each image processor that torchvision is absent, and makes do; the second lists kernels
# that are built for another device.
_HINTS = ("transformers.utils.import_utils", "torchao")


@contextmanager
def libraries(card: str) -> Iterator[None]:
    """Where diffusers and transformers can be imported, and load without drawing bars.

    Raises:
        Refused: they are not installed; `card` is who needs them.
    """
    hints = [logging.getLogger(name) for name in _HINTS]
    levels = [log.level for log in hints]
    for log in hints:
        log.setLevel(logging.ERROR)
    try:
        from diffusers.utils import logging as diffusers_log
        from transformers.utils import logging as transformers_log
    except ImportError as error:
        raise Refused(f"card '{card}' needs an extra: pip install 'restrike[diffusers]'") from error
    shown = [log for log in (diffusers_log, transformers_log) if log.is_progress_bar_enabled()]
    for log in shown:
        log.disable_progress_bar()
    try:
        yield
    finally:
        for log, level in zip(hints, levels, strict=True):
            log.setLevel(level)
        for log in shown:
            log.enable_progress_bar()
