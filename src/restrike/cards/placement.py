"""Where and how precisely a component lives. Data only; devices are looked for in the engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A torch device by its string ("cpu", "cuda:0") and a dtype by its torch name ("float32")."""

    device: str
    dtype: str
