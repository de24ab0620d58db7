"""Is a file all there? The decoders take a file that was cut off between two parts for a shorter one."""

from __future__ import annotations

import io
from typing import IO

from restrike.errors import Refused


def check_png_whole(file: IO[bytes]) -> None:
    """Refuse a PNG without its closing chunk."""
    _check_tail(b"IEND" in _tail(file))


def check_gif_whole(file: IO[bytes]) -> None:
    """Refuse a GIF that does not end with its trailer; some programs pad it with zeros."""
    _check_tail(_tail(file).rstrip(b"\0").endswith(b";"))


def check_mp4_whole(file: IO[bytes]) -> None:
    """Walk the outermost boxes (ISO 14496-12: size, name, payload); refuse one that reaches past the end."""
    end = _size(file)
    position = 0
    while position < end:
        file.seek(position)
        header = file.read(16)
        size = int.from_bytes(header[:4], "big")
        if size == 1:
            size = int.from_bytes(header[8:16], "big")
        elif size == 0:
            break  # this box lasts until the end of the file, wherever that is
        _check_tail(size >= 8 and position + size <= end)
        position += size
    file.seek(0)


def check_webm_whole(file: IO[bytes]) -> None:
    """Refuse a file that is shorter than its two outermost elements (RFC 8794: id, size, payload) say."""
    end = _size(file)
    position = 0
    for _ in ("EBML header", "segment"):
        file.seek(position)
        _variable_int(file)
        size, unknown = _variable_int(file)
        if unknown:
            break  # a live recording: it lasts until the end of the file
        position = file.tell() + size
        _check_tail(position <= end)
    file.seek(0)


def _variable_int(file: IO[bytes]) -> tuple[int, bool]:
    """One EBML number and whether it is the one that stands for 'unknown' (all its bits set)."""
    first = file.read(1)
    _check_tail(first not in (b"", b"\0"))
    length = 9 - first[0].bit_length()
    value = int.from_bytes(first + file.read(length - 1), "big")
    mask = (1 << 7 * length) - 1
    return value & mask, value & mask == mask


def _check_tail(complete: bool) -> None:
    if not complete:
        raise Refused("the file stops before its end")


def _tail(file: IO[bytes]) -> bytes:
    """The last bytes; the position in the file stays as it was."""
    position = file.tell()
    file.seek(max(0, _size(file) - 64))
    tail = file.read()
    file.seek(position)
    return tail


def _size(file: IO[bytes]) -> int:
    size_bytes = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size_bytes
