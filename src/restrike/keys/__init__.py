"""One identity algebra: canonical encoding, digests, keys and the difference of two keys.

Every key in Restrike is built here, out of content alone. Imports no other part but the errors, and neither
numpy nor torch.
"""

from restrike.keys.diff import Difference
from restrike.keys.files import file_digest, folder_digest
from restrike.keys.key import Key, digest
from restrike.keys.unkeyable import Unkeyable
from restrike.keys.values import ArrayContent, Digest, Record, Ref, bytes_digest

__all__ = [
    "ArrayContent",
    "Difference",
    "Digest",
    "Key",
    "Record",
    "Ref",
    "Unkeyable",
    "bytes_digest",
    "digest",
    "file_digest",
    "folder_digest",
]
