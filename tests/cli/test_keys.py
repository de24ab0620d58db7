"""`restrike keys`: make, list, trust and revoke."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from restrike.mint.cell.keyring import Keyring
from restrike.settings import settings

from .conftest import Restrike


@pytest.fixture(autouse=True)
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Keyring]:
    monkeypatch.setenv("RESTRIKE_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    yield Keyring(tmp_path / "store" / "cells" / "keys")
    settings.cache_clear()


def test_new_prints_the_half_that_others_trust(restrike: Restrike, ring: Keyring) -> None:
    done = restrike("keys", "new", "build-box")
    assert done.out.strip() == str(ring.signer("build-box").public)
    assert restrike("keys", "new", "build-box").code == 2
    assert restrike("keys", "new", "--json").json["name"] == "local"


def test_the_list_says_who_is_trusted(restrike: Restrike, ring: Keyring) -> None:
    assert "no keys" in restrike("keys", "list").out
    mine = ring.signer().public
    done = restrike("keys", "list")
    assert f"{mine.fingerprint[:16]}  trusted, local, signs here" in done.out
    assert str(mine) in done.out
    (found,) = restrike("keys", "list", "--json").json["keys"]
    assert (found["fingerprint"], found["own"], found["revoked"]) == (mine.fingerprint, True, None)


def test_trust_takes_a_key_or_a_file_with_one(restrike: Restrike, ring: Keyring, tmp_path: Path) -> None:
    for number, name in enumerate(("text", "file")):
        public = Keyring(tmp_path / str(number)).signer().public
        (tmp_path / "key.pub").write_text(f"{public}\n")
        given = str(public) if name == "text" else "key.pub"
        assert restrike("keys", "trust", given, "--name", name).code == 0
        assert ring.standing(public) == "trusted"


@pytest.mark.parametrize("given", ["nowhere.pub", "ed25519:AAAA", "binary", "."])
def test_what_is_no_key_is_refused(given: str, restrike: Restrike, ring: Keyring, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    done = restrike("keys", "trust", given)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert ring.known() == ()


def test_revoke_is_for_good(restrike: Restrike, ring: Keyring) -> None:
    public = ring.signer().public
    assert restrike("keys", "revoke", public.fingerprint[:12], "--reason", "disk stolen").code == 0
    assert "revoked: disk stolen" in restrike("keys", "list").out
    assert restrike("keys", "trust", str(public)).code == 2
    assert restrike("keys", "revoke", "zz").code == 2


def test_no_verb_prints_a_private_key(restrike: Restrike, ring: Keyring, tmp_path: Path) -> None:
    restrike("keys", "new")
    pem = (tmp_path / "store" / "cells" / "keys" / "own" / "local.pem").read_text()
    secret = pem.splitlines()[1]
    for verb in (["list"], ["list", "--json"]):
        assert secret not in restrike("keys", *verb).out
