"""`--from FILE`: whether the file can be made again on this machine, and what may come out otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from restrike.cards.identity import adapted
from restrike.cli.adapters import recorded_adapters
from restrike.engine.versions import versions
from restrike.errors import Refused

_MAY_DIFFER = "the bytes may differ"

if TYPE_CHECKING:
    from restrike.cards.card import LoopSpec
    from restrike.cli.asking import Source
    from restrike.engine.resident import ResidentCard


def differences(
    source: Source, resident: ResidentCard, loop: LoopSpec, *, card_is_given: bool
) -> tuple[str, ...]:
    """What differs from when the file was made, one line each.

    Raises:
        Refused: the weights are others, and no card was named to be used none the less.
    """
    made = source.provenance
    found = (*_versions(source, versions(resident.card.libraries)), *_cells(source, resident))
    parts = [part.identity for part in recorded_adapters(source.path, made.arguments)]
    weights = adapted(resident.weights(loop), parts)
    if weights == made.weights:
        return found
    synced = ", ".join(
        f"{name} synced to version {made.weight_versions[name]}" for name in made.weight_versions
    )
    line = f"'{source.path}' was made with weights {made.weights}, card '{resident.address}' has {weights}"
    line = f"{line} (it had {synced})" if synced else line
    if not card_is_given:
        raise Refused(f"{line}; name the card with --card to make it with these all the same")
    return (line, *found)


def _cells(source: Source, resident: ResidentCard) -> tuple[str, ...]:
    made, armed = source.provenance.cells, {call.key for call in resident.compiled.armed}
    absent = [key[:16] for key in made if key not in armed]
    if absent:
        return (f"'{source.path}' was made with cells {', '.join(absent)}, not armed here; {_MAY_DIFFER}",)
    if armed and not made:
        return (f"'{source.path}' was made without cells, which are armed here; {_MAY_DIFFER}: --cells off",)
    return ()


def _versions(source: Source, here: Mapping[str, str]) -> tuple[str, ...]:
    others = [
        f"{name} {version} (here {here[name]})"
        for name, version in source.provenance.versions.items()
        if name in here and here[name] != version
    ]
    if not others:
        return ()
    return (f"'{source.path}' was made with {', '.join(others)}; {_MAY_DIFFER}",)
