"""Read and write pictures, video and sound; every file carries what made it.

Importing this package loads no codec and no numpy.
"""

from restrike.media.clip import Audio, Media, enlarge
from restrike.media.containers import Container, Gif, Jpeg, Mp4, Png, WebM, WebP, container_for
from restrike.media.files import check_target, encode, provenance_of, read, read_picture, write
from restrike.media.provenance import Provenance

__all__ = [
    "Audio",
    "Container",
    "Gif",
    "Jpeg",
    "Media",
    "Mp4",
    "Png",
    "Provenance",
    "WebM",
    "WebP",
    "check_target",
    "container_for",
    "encode",
    "enlarge",
    "provenance_of",
    "read",
    "read_picture",
    "write",
]
