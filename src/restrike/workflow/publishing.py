"""Gives a run its own files: each encoded once per key, then copied or reflinked out of the store.

It never computes a value, and reads none whose files are kept already.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from restrike.errors import Refused, Shortfall
from restrike.keys import Record, Unkeyable, digest
from restrike.media.provenance import Provenance
from restrike.store.blobs import Damaged
from restrike.store.entry import Entry
from restrike.store.files import write_file
from restrike.store.store import Store
from restrike.store.values import blobs_of, pack, tree_digest, tree_of
from restrike.workflow.encoding import Encoding, default_suffix, encode_key, encoded
from restrike.workflow.graph import Action
from restrike.workflow.naming import file_name
from restrike.workflow.provenance import provenance_of
from restrike.workflow.results import MEDIA
from restrike.workflow.runs import FileRecord, RunFolder
from restrike.workflow.values import Clip, Sound


@dataclass(frozen=True, kw_only=True)
class Item:
    """One file to be: what is known of its value without reading it, and how to get the value.

    `tree` is the value in its stored form, None for one that has no digest.
    """

    tree: Any
    value: Callable[[], Any]
    encoding: Encoding
    provenance: Provenance | None
    name: str


@dataclass(frozen=True, kw_only=True)
class Publisher:
    """Writes the files of one run. `hold` keeps an entry from eviction, `check` may raise to cancel."""

    store: Store
    folder: RunFolder
    scope: str
    hold: Callable[[Entry], None]
    check: Callable[[], None]

    def publish(
        self, action: Action, document: bytes | None, value: Callable[[], Any], versions: Mapping[str, str]
    ) -> tuple[FileRecord, ...]:
        """Write the files of an action: one, or one for each item of a list of clips or sounds.

        `document` is the value's stored form, if it is kept; `value` gives the value itself, if it is needed.
        """
        tree = tree_of(document) if document is not None else _tree(value())
        return tuple(self._write(item) for item in _items(action, tree, value, versions))

    def _write(self, item: Item) -> FileRecord:
        if item.tree is None:
            return self._encoded(item, None)
        key = encode_key(tree_digest(item.tree), item.encoding, item.provenance, self.scope)
        with self.store.flight(key, self.check) as entry:
            if entry is not None:
                self.hold(entry)
                (blob,) = blobs_of(entry.document)
                target = self.folder.path / item.name
                try:
                    self.store.blobs.publish(blob, target)
                except Damaged:
                    self.store.remove(key)
                else:
                    return FileRecord(
                        file=item.name,
                        key=key.digest.hex,
                        sha256=blob.hex,
                        size_bytes=target.stat().st_size,
                        reused=True,
                    )
            return self._encoded(item, key.digest.hex, partial(self._keep, key, item.encoding))

    def _encoded(
        self, item: Item, key: str | None, keep: Callable[[bytes, float], None] = lambda data, seconds: None
    ) -> FileRecord:
        value = item.value()
        began = time.perf_counter()
        data = encoded(value, item.encoding, item.provenance)
        keep(data, time.perf_counter() - began)
        write_file(self.folder.path / item.name, data)
        return FileRecord(
            file=item.name,
            key=key,
            sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            reused=False,
        )

    def _keep(self, key: Any, encoding: Encoding, data: bytes, seconds: float) -> None:
        import numpy as np

        try:
            kept = self.store.put(
                key,
                np.frombuffer(data, dtype=np.uint8),
                seconds=seconds,
                label=f"encode {encoding.suffix}",
                origin=self.folder.name,
                family=digest("encode-family", "1", [encoding.suffix]),
            )
            self.hold(kept.entry)
        except (Refused, Shortfall):
            # A run's own file does not need the store; the next run encodes it again.
            pass


def _tree(value: Any) -> Any:
    try:
        return tree_of(pack(value).document)
    except Unkeyable:
        return None


def _items(
    action: Action, tree: Any, value: Callable[[], Any], versions: Mapping[str, str]
) -> tuple[Item, ...]:
    shown = value() if tree is None else tree
    several = isinstance(shown, list | tuple) and bool(shown) and all(map(_is_media, shown))
    found = list(shown) if several else [shown]
    return tuple(
        Item(
            tree=None if tree is None else part,
            value=(lambda at=index: value()[at]) if several else value,
            encoding=(encoding := _encoding(action, part)),
            provenance=provenance_of(action, index, versions) if encoding.suffix in MEDIA else None,
            name=file_name(action, encoding.suffix, index if several else None),
        )
        for index, part in enumerate(found)
    )


def _encoding(action: Action, shown: Any) -> Encoding:
    suffix = action.result.container or default_suffix(shown)
    return Encoding(suffix=suffix, options=action.result.options)


def _is_media(shown: Any) -> bool:
    if isinstance(shown, Record):
        return shown.name in (Clip.key_name, Sound.key_name)
    return isinstance(shown, Clip | Sound)
