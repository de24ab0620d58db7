"""How compiled code may answer for a card: `require` refuses what it cannot answer, `off` uses none."""

from __future__ import annotations

from typing import Literal

Mode = Literal["auto", "require", "off"]
OFF: Mode = "off"
