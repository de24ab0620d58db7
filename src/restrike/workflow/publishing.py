"""Gives a run its own files: each encoded once per key, then copied or reflinked out of the store.

It names files and never computes a value that the caller has not settled.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from restrike.errors import Refused, Shortfall
from restrike.keys import Digest, digest
from restrike.media.provenance import Provenance
from restrike.store.blobs import Damaged
from restrike.store.entry import Entry
from restrike.store.files import write_file
from restrike.store.store import Store
from restrike.store.values import blobs_of, pack
from restrike.workflow.encoding import Encoding, default_suffix, encode_key, encoded
from restrike.workflow.graph import Action
from restrike.workflow.provenance import provenance_of
from restrike.workflow.runs import FileRecord, RunFolder


def publish_files(
    action: Action,
    value: Callable[[], Any],
    whole: Digest | None,
    store: Store,
    folder: RunFolder,
    versions: Mapping[str, str],
    hold: Callable[[Entry], None],
) -> tuple[FileRecord, ...]:
    """Write the files of one action; a list becomes one file an item."""
    found = value()
    items = list(found) if isinstance(found, list | tuple) else [found]
    records = []
    for index, item in enumerate(items):
        encoding = Encoding(
            suffix=action.result.container or default_suffix(item), options=action.result.options
        )
        name = file_name(action, encoding.suffix, index if isinstance(found, list | tuple) else None)
        item_digest = whole if item is found and whole is not None else pack(item).digest
        provenance = provenance_of(action, index, versions)
        records.append(_publish(item, item_digest, encoding, provenance, store, folder, name, hold))
    return tuple(records)


def file_name(action: Action, suffix: str, index: int | None) -> str:
    """The name of a file relative to the run's folder: folder, base name, member, item."""
    base = action.result.name or action.step.replace("/", "-")
    member = action.id.removeprefix(action.step).strip("[]")
    parts = [base, *([_safe(member)] if member else []), *([str(index)] if index is not None else [])]
    return str(PurePosixPath(action.result.folder or ".") / f"{'-'.join(parts)}.{suffix}")


def _safe(text: str) -> str:
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in text)[:60].strip(".-")
    # Two names that clean to one text still get two files.
    return kept if kept == text else f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def _publish(
    item: Any,
    item_digest: Digest,
    encoding: Encoding,
    provenance: Provenance | None,
    store: Store,
    folder: RunFolder,
    name: str,
    hold: Callable[[Entry], None],
) -> FileRecord:
    import numpy as np

    key = encode_key(item_digest, encoding, provenance)
    target = folder.path / name

    def record(data_digest: str, size_bytes: int, *, reused: bool) -> FileRecord:
        return FileRecord(
            file=name, key=key.digest.hex, sha256=data_digest, size_bytes=size_bytes, reused=reused
        )

    with store.flight(key) as entry:
        if entry is not None:
            hold(entry)
            (blob,) = blobs_of(entry.document)
            try:
                store.blobs.publish(blob, target)
                return record(blob.hex, target.stat().st_size, reused=True)
            except Damaged:
                store.remove(key)
        began = time.perf_counter()
        data = encoded(item, encoding, provenance)
        try:
            kept = store.put(
                key,
                np.frombuffer(data, dtype=np.uint8),
                seconds=time.perf_counter() - began,
                label=f"encode {encoding.suffix}",
                origin=folder.name,
                family=digest("encode-family", "1", [encoding.suffix]),
            )
            hold(kept.entry)
        except (Refused, Shortfall):
            # A run's own file does not need the store; the next run encodes it again.
            pass
        write_file(target, data)
        return record(hashlib.sha256(data).hexdigest(), len(data), reused=False)
