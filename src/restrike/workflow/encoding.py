"""How a value becomes a file: the second action of a step, with a key of its own.

Changing a result block encodes again and never computes again; the file's name is in no key.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused
from restrike.keys import Digest, Key, Record, Ref
from restrike.workflow.values import Clip, Sound

if TYPE_CHECKING:
    from restrike.media.provenance import Provenance

DOMAIN, EPOCH = "encode", "1"


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """A container and its options, resolved for one kind of value."""

    suffix: str
    options: Mapping[str, Any]


def default_suffix(value: Any) -> str:
    """What people expect of a value, or of its stored form: png, mp4, wav, txt or json."""
    if isinstance(value, Record) and value.name == Clip.key_name:
        frames: Any = value.fields["frames_THWC"]
        return "png" if frames.shape[0] == 1 else "mp4"
    if isinstance(value, Clip):
        return "png" if value.is_still else "mp4"
    if isinstance(value, Sound) or (isinstance(value, Record) and value.name == Sound.key_name):
        return "wav"
    return "txt" if isinstance(value, str) else "json"


def encode_key(value: Digest, encoding: Encoding, provenance: Provenance | None, scope: str) -> Key:
    """The key of a file's bytes; the scope is the step's, so that no workspace sees another's files."""
    return Key(
        DOMAIN,
        EPOCH,
        {
            "value": Ref(value),
            "container": encoding.suffix,
            "options": dict(encoding.options),
            "provenance": provenance.to_json() if provenance else None,
            "scope": scope,
        },
    )


def encoded(value: Any, encoding: Encoding, provenance: Provenance | None) -> bytes:
    """The bytes of a file that holds the value; raises Refused when the container cannot hold it."""
    suffix = encoding.suffix
    if isinstance(value, Clip):
        return _clip(value, encoding, provenance)
    if isinstance(value, Sound) and suffix == "wav":
        return _wav(value)
    if suffix == "json":
        return (json.dumps(value, indent=2, ensure_ascii=False, default=_undecodable) + "\n").encode()
    if suffix == "txt" and isinstance(value, str | int | float | bool):
        return f"{value}\n".encode()
    raise Refused(f"a {type(value).__name__} cannot be written as .{suffix}")


def _clip(value: Clip, encoding: Encoding, provenance: Provenance | None) -> bytes:
    from restrike.media import Audio, container_for, encode

    audio = value.sound and Audio(samples_CN=value.sound.samples_CN, rate_hz=value.sound.rate_hz)
    kind = type(container_for(f"file.{encoding.suffix}"))
    try:
        container = kind(**encoding.options)
    except TypeError as error:
        known = ", ".join(field.name for field in fields(kind))
        raise Refused(f"{kind.name} has no such option ({known}): {error}") from error
    return encode(value.frames_THWC, container, fps=value.fps or 8.0, audio=audio, provenance=provenance)


def _wav(value: Sound) -> bytes:
    import io
    import wave

    import numpy as np

    samples_NC = (value.samples_CN.T.clip(-1, 1) * 32767).round().astype(np.int16)
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(samples_NC.shape[1])
        file.setsampwidth(2)
        file.setframerate(value.rate_hz)
        file.writeframes(samples_NC.tobytes())
    return buffer.getvalue()


def _undecodable(value: Any) -> Any:
    raise Refused(f"a value that holds a {type(value).__name__} cannot be written as .json")
