"""Tokens: who holds one may do what its scopes say. Only a hash is kept; the text is told once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from restrike.errors import Conflict, NotFound, Refused, Unknown
from restrike.server.database.connect import Database
from restrike.server.database.schema import tokens

_TEXT = re.compile(r"rst_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


class Scope(StrEnum):
    """What a token may do: look; run and change what is its users'; look after the server."""

    READ = "read"
    RUN = "run"
    ADMIN = "admin"


@dataclass(frozen=True, kw_only=True)
class Grant:
    """Who asks: the name of a token, empty for the owner of the machine, and what that may do."""

    name: str
    scopes: frozenset[Scope]


OWNER = Grant(name="", scopes=frozenset(Scope))
"""Whoever reaches a server that listens on this machine alone."""


@dataclass(frozen=True, kw_only=True)
class Token:
    """A token as it is listed: all but its text."""

    name: str
    scopes: tuple[str, ...]
    created: float


class Tokens:
    """The tokens of one server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, name: str, scopes: frozenset[Scope]) -> str:
        """A new token; its text is returned here and nowhere again.

        Raises:
            Conflict: there is one of that name.
            Refused: it is no name, or there are no scopes.
        """
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name):
            raise Refused(f"'{name[:80]}' is no name for a token: letters, digits, '.', '_' and '-'")
        if not scopes:
            raise Refused(f"a token needs a scope: {', '.join(Scope)}")
        ident, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        row = {
            "id": ident,
            "name": name,
            "hash": _hash(secret),
            "scopes": ",".join(sorted(scopes)),
            "created": time.time(),
        }
        with self._database.write() as connection:
            try:
                connection.execute(insert(tokens).values(row))
            except IntegrityError as error:
                raise Conflict(f"there is a token '{name}'; delete it or take another name") from error
        return f"rst_{ident}_{secret}"

    def grant(self, text: str) -> Grant | None:
        """What the holder of a token may do; None for a text that is no token of this server."""
        match = _TEXT.fullmatch(text)
        if match is None:
            return None
        with self._database.read() as connection:
            row = connection.execute(select(tokens).where(tokens.c.id == match[1])).one_or_none()
        # Compared also when there is none, so that no time tells which ids exist.
        same = hmac.compare_digest(_hash(match[2]), row.hash if row is not None else _hash(""))
        if row is None or not same:
            return None
        return Grant(name=row.name, scopes=frozenset(map(Scope, row.scopes.split(","))))

    def listed(self) -> tuple[Token, ...]:
        """All tokens by name."""
        with self._database.read() as connection:
            rows = connection.execute(select(tokens).order_by(tokens.c.name)).all()
        return tuple(
            Token(name=row.name, scopes=tuple(row.scopes.split(",")), created=row.created) for row in rows
        )

    def count(self) -> int:
        """How many there are."""
        with self._database.read() as connection:
            return connection.execute(select(func.count()).select_from(tokens)).scalar_one()

    def delete(self, name: str) -> None:
        """Forget a token: it opens nothing from now on. Raises NotFound."""
        with self._database.write() as connection:
            if not connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount:
                raise NotFound(f"no token '{name}'")


def looks_like_token(text: str) -> bool:
    """Whether a text has the form of a token, of this server or of another."""
    return _TEXT.fullmatch(text) is not None


def scopes_of(names: list[str]) -> frozenset[Scope]:
    """Scopes by their names, each with those below it; raises Unknown."""
    for name in names:
        if name not in tuple(Scope):
            raise Unknown("scope", name, Scope)
    ranks = list(Scope)
    highest = max((ranks.index(Scope(name)) for name in names), default=-1)
    return frozenset(ranks[: highest + 1])


def _hash(secret: str) -> str:
    # The secret has 256 bits of its own, so that a slow hash would add nothing.
    return hashlib.sha256(secret.encode()).hexdigest()
