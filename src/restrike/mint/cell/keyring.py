"""The keys of one store: those it signs with, those it trusts, those it trusts no more.

One small file a key, so that any number of processes share the ring. A private key never leaves its file,
and a revoked key never becomes trusted again.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from restrike.errors import NotFound, Refused, RestrikeError, Unknown, typed
from restrike.mint.cell.signing import PublicKey, Signer
from restrike.store.files import sync_folder, write_file

OWN = "local"
"""The name of the key that a store makes for itself and signs with unless another is named."""

Standing = Literal["trusted", "revoked", "unknown"]
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class KnownKey:
    """A key of the ring; `own` if its private half is here, `revoked` says why it is trusted no more."""

    name: str
    public: PublicKey
    own: bool
    revoked: str | None


class Keyring:
    """The ring in one folder, which is made when the first key is."""

    def __init__(self, root: Path) -> None:
        self._own, self._trusted, self._revoked = root / "own", root / "trusted", root / "revoked"

    def signer(self, name: str = OWN) -> Signer:
        """The key of that name, to sign with; the store's own is made when it is first needed.

        Raises:
            Unknown: no such key is here.
            Refused: it was revoked, or others can read its file.
        """
        _check_name(name)
        path = self._private(name)
        if not path.exists():
            if name != OWN:
                raise Unknown("signing key", name, self._names(), hint="`restrike keys new NAME` makes one.")
            self._make(name)
        signer = _loaded(path)
        if self.standing(signer.public) == "revoked":
            raise Refused(f"the key '{name}' is revoked; make another: restrike keys new {name}")
        self._remember(name, signer.public)
        return signer

    def new(self, name: str = OWN) -> KnownKey:
        """Make a key to sign with, and trust it. The name of a revoked key may be taken again.

        Raises:
            Refused: the name is taken, or is no name.
        """
        _check_name(name)
        path = self._private(name)
        if path.exists():
            if self.standing(_loaded(path).public) != "revoked":
                raise Refused(f"there is a key '{name}' already; give another name")
            path.unlink(missing_ok=True)
        if not self._make(name):
            raise Refused(f"there is a key '{name}' already; give another name")
        public = self.signer(name).public
        return KnownKey(name=name, public=public, own=True, revoked=None)

    def trust(self, public: PublicKey, name: str) -> KnownKey:
        """Load what this key signed; raises Refused for one that was revoked, or a name that is none."""
        _check_name(name)
        if self.standing(public) == "revoked":
            raise Refused(f"the key {public.fingerprint[:16]} was revoked, and that is for good")
        self._remember(name, public)
        return self.find(public.fingerprint)

    def revoke(self, fingerprint: str, reason: str) -> KnownKey:
        """Load nothing any more that this key signed; raises as `find`."""
        known = self.find(fingerprint)
        write_file(
            self._revoked / f"{known.public.fingerprint}.json", json.dumps({"reason": reason}).encode()
        )
        return self.find(known.public.fingerprint)

    def standing(self, public: PublicKey) -> Standing:
        """Whether what this key signed is loaded."""
        name = f"{public.fingerprint}.json"
        if (self._revoked / name).exists():
            return "revoked"
        path = self._trusted / name
        # By its bytes, not by the name of a file that anybody could have renamed.
        return "trusted" if path.exists() and _fields(path).get("public") == str(public) else "unknown"

    def find(self, fingerprint: str) -> KnownKey:
        """The key whose fingerprint begins so; raises NotFound for none, Refused for several."""
        found = [key for key in self.known() if key.public.fingerprint.startswith(fingerprint.lower())]
        if not found:
            raise NotFound(f"no key here has a fingerprint that begins with '{fingerprint}'")
        if len(found) > 1:
            raise Refused(f"several fingerprints begin with '{fingerprint}'; give more digits")
        return found[0]

    def known(self) -> tuple[KnownKey, ...]:
        """All keys that were ever trusted here, by name."""
        return tuple(sorted(self._read(), key=lambda key: (key.name, key.public.fingerprint)))

    def _read(self) -> Iterator[KnownKey]:
        for path in self._trusted.glob("*.json"):
            fields = _fields(path)
            name, public = str(fields.get("name")), PublicKey.parse(str(fields.get("public")))
            own, revoked = self._is_own(name, public), self._reason(public)
            yield KnownKey(name=name, public=public, own=own, revoked=revoked)

    def _reason(self, public: PublicKey) -> str | None:
        path = self._revoked / f"{public.fingerprint}.json"
        return str(_fields(path).get("reason", "")) if path.exists() else None

    def _is_own(self, name: str, public: PublicKey) -> bool:
        path = self._private(name)
        # Of a file that this user cannot read, nothing is known: it signs for another.
        with suppress(RestrikeError):
            return path.exists() and _loaded(path).public == public
        return False

    def _names(self) -> list[str]:
        return [path.stem for path in self._own.glob("*.pem")]

    def _private(self, name: str) -> Path:
        return self._own / f"{name}.pem"

    def _remember(self, name: str, public: PublicKey) -> None:
        path = self._trusted / f"{public.fingerprint}.json"
        if not path.exists():
            write_file(path, json.dumps({"name": name, "public": str(public)}).encode())

    def _make(self, name: str) -> bool:
        """Write a new private key, for its owner alone; False when another process was first."""
        pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        partial = self._own / f".{secrets.token_hex(8)}.part"
        try:
            self._own.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(pem)
                file.flush()
                os.fsync(file.fileno())
            # A link, for it fails where a name is taken: two processes must not sign with two keys.
            os.link(partial, self._private(name))
            sync_folder(self._own)
        except FileExistsError:
            return False
        except OSError as error:
            raise typed(error) from error
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        return True


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(f"'{name}' is no name of a key: letters, digits, '_', '-' and '.', at most 64")


def _fields(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise typed(error) from error
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(f"the ring's file '{path.name}' is damaged; remove it, and trust its key again")
    return found


def _loaded(path: Path) -> Signer:
    try:
        if os.name == "posix" and path.stat().st_mode & 0o077:
            raise Refused(f"others can read the private key '{path.name}'; chmod 600 '{path}'")
        private = load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise typed(error) from error
    except ValueError as error:
        raise Refused(f"'{path.name}' is no private key") from error
    if not isinstance(private, Ed25519PrivateKey):
        raise Refused(f"'{path.name}' is no Ed25519 key")
    return Signer(private)
