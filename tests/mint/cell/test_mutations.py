"""Whatever a signed header or manifest is changed to, the cell is refused, or is the same cell."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from mint.cells import Making, verified
from mint.rewriting import Parts
from restrike.keys.encoding import decode
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.refusal import CellRefused

VALUES = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-(2**70), 2**70),
    some.floats(allow_nan=False),
    some.text(max_size=5),
    some.binary(max_size=5),
    some.just(()),
    some.just({}),
    some.just({"hex": "0" * 64}),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place within a decoded value."""
    if isinstance(value, dict):
        return [path, *(each for name, entry in value.items() for each in places(entry, (*path, name)))]
    if isinstance(value, (list, tuple)):
        return [path, *(each for index, item in enumerate(value) for each in places(item, (*path, index)))]
    return [path]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The value with another at one of its places."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: replaced(value[step], tuple(rest), new)}
    items = list(value)
    items[step] = replaced(items[step], tuple(rest), new)
    return type(value)(items)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Parts, Keyring, Path]:
    folder = tmp_path_factory.mktemp("mutations")
    ring = Keyring(folder / "keys")
    return Parts.of(Making().sealed(folder / "good.cell", ring.signer())), ring, folder / "x.cell"


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_a_header_changed_and_signed_again_is_refused(
    made: tuple[Parts, Keyring, Path], data: some.DataObject
) -> None:
    parts, ring, file = made
    header: Any = decode(parts.header)
    path = data.draw(some.sampled_from([place for place in places(header) if place]))
    changed = replaced(header, path, data.draw(VALUES))
    other = parts.with_header(**changed).signed_by(ring.signer())
    if other.header == parts.header:
        verified(other.write(file), ring)
        return
    with pytest.raises(CellRefused):
        verified(other.write(file), ring)


# What the manifest says beside the facts of the key is the signer's word: another word is another cell.
WORD = ("constants", "compiler", "phases", "proof")


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_a_manifest_changed_and_signed_again_is_refused_or_is_as_good(
    made: tuple[Parts, Keyring, Path], data: some.DataObject
) -> None:
    parts, ring, file = made
    manifest: Any = decode(parts.manifest)
    path = data.draw(some.sampled_from([place for place in places(manifest) if place]))
    other = parts.with_manifest(**replaced(manifest, path, data.draw(VALUES))).signed_by(ring.signer())
    if other.manifest == parts.manifest or (len(path) > 1 and path[1] in WORD):
        with suppress(CellRefused):
            verified(other.write(file), ring)
        return
    with pytest.raises(CellRefused):
        verified(other.write(file), ring)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=some.data())
def test_any_bytes_cut_out_or_put_in_are_refused(
    made: tuple[Parts, Keyring, Path], data: some.DataObject
) -> None:
    parts, ring, file = made
    whole = parts.write(file).read_bytes()
    start = data.draw(some.integers(0, len(whole)))
    end = data.draw(some.integers(start, len(whole)))
    changed = whole[:start] + data.draw(some.binary(max_size=40)) + whole[end:]
    file.write_bytes(changed)
    if changed == whole:
        verified(file, ring)
        return
    with pytest.raises(CellRefused):
        verified(file, ring)
