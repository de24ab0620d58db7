"""A store signs with its own key, trusts by fingerprint, and revokes for good."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from restrike.errors import NotFound, Refused, Unknown
from restrike.mint.cell.keyring import Keyring
from restrike.mint.cell.signing import PublicKey


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def ring(root: Path) -> Keyring:
    return Keyring(root)


def stranger(tmp_path: Path) -> PublicKey:
    return Keyring(tmp_path / "elsewhere").signer().public


def test_the_own_key_is_made_once_trusted_and_for_its_owner_alone(ring: Keyring, root: Path) -> None:
    public = ring.signer().public
    assert Keyring(root).signer().public == public
    assert ring.standing(public) == "trusted"
    assert stat.S_IMODE((root / "own" / "local.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / "own").stat().st_mode) == 0o700


def test_looking_makes_nothing(ring: Keyring, root: Path, tmp_path: Path) -> None:
    assert ring.known() == ()
    assert ring.standing(stranger(tmp_path)) == "unknown"
    assert not root.exists()


def test_processes_that_need_the_first_key_at_once_agree_on_it(root: Path) -> None:
    ask = (
        "import sys; from pathlib import Path; from restrike.mint.cell.keyring import Keyring\n"
        "input(); print(Keyring(Path(sys.argv[1])).signer().public)"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ask, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    assert len({each.communicate()[0] for each in running}) == 1
    assert not list((root / "own").glob(".*"))


def test_a_private_key_that_others_can_read_signs_nothing(ring: Keyring, root: Path) -> None:
    ring.signer()
    (root / "own" / "local.pem").chmod(0o644)
    with pytest.raises(Refused, match="chmod 600"):
        ring.signer()
    (root / "own" / "local.pem").chmod(0o600)
    ring.signer()


def test_the_text_of_a_public_key_leads_back_to_it(ring: Keyring) -> None:
    public = ring.signer().public
    assert PublicKey.parse(f" {public}\n") == public
    for wrong in (
        "",
        "ed25519:",
        "ed25519:AAAA",
        str(public)[:-2],
        str(public).replace("ed25519", "rsa"),
        "x y",
    ):
        with pytest.raises(Refused, match="public key"):
            PublicKey.parse(wrong)


def test_a_signature_is_of_one_key_over_one_header(ring: Keyring, tmp_path: Path) -> None:
    signer = ring.signer()
    signature = signer.sign(b"header")
    assert signer.public.verifies(signature, b"header")
    assert not signer.public.verifies(signature, b"another")
    assert not signer.public.verifies(signature[:-1], b"header")
    assert not stranger(tmp_path).verifies(signature, b"header")
    assert not PublicKey(b"\xff" * 32).verifies(signature, b"header")


def test_a_stranger_is_trusted_when_someone_says_so(ring: Keyring, tmp_path: Path) -> None:
    public = stranger(tmp_path)
    known = ring.trust(public, "build-box")
    assert (known.name, known.own, known.revoked) == ("build-box", False, None)
    assert ring.standing(public) == "trusted"
    with pytest.raises(Unknown, match="signing key"):
        ring.signer("build-box")


def test_a_revoked_key_stays_revoked(ring: Keyring, tmp_path: Path) -> None:
    public = stranger(tmp_path)
    ring.trust(public, "theirs")
    revoked = ring.revoke(public.fingerprint[:10], "lost")
    assert (revoked.revoked, ring.standing(public)) == ("lost", "revoked")
    with pytest.raises(Refused, match="for good"):
        ring.trust(public, "theirs")
    assert [key.revoked for key in ring.known()] == ["lost"]


def test_a_revoked_own_key_signs_no_more_and_its_name_can_have_another(ring: Keyring) -> None:
    first = ring.signer().public
    with pytest.raises(Refused, match="another name"):
        ring.new()
    ring.revoke(first.fingerprint, "lost")
    with pytest.raises(Refused, match="restrike keys new local"):
        ring.signer()
    second = ring.new().public
    assert ring.signer().public == second != first
    assert [ring.standing(key) for key in (first, second)] == ["revoked", "trusted"]
    assert {(key.public, key.own) for key in ring.known()} == {(first, False), (second, True)}


def test_a_renamed_file_of_the_ring_trusts_nobody_else(ring: Keyring, root: Path, tmp_path: Path) -> None:
    ring.signer()
    public = stranger(tmp_path)
    (mine,) = (root / "trusted").iterdir()
    mine.rename(root / "trusted" / f"{public.fingerprint}.json")
    assert ring.standing(public) == "unknown"


@pytest.mark.parametrize("content", ["", "[]", "nonsense"])
def test_a_damaged_ring_is_named(content: str, ring: Keyring, root: Path) -> None:
    public = ring.signer().public
    (root / "trusted" / f"{public.fingerprint}.json").write_text(content)
    with pytest.raises(Refused, match="damaged"):
        ring.known()
    with pytest.raises(Refused, match="damaged"):
        ring.standing(public)


def test_a_file_that_is_no_private_key_is_named(ring: Keyring, root: Path) -> None:
    ring.signer()
    (root / "own" / "local.pem").write_text("nonsense")
    with pytest.raises(Refused, match=r"local\.pem"):
        ring.signer()


@pytest.mark.parametrize("name", ["", "../x", "a/b", "-x", "x" * 65, "é"])
def test_a_name_is_a_plain_name(name: str, ring: Keyring) -> None:
    for use in (ring.new, ring.signer):
        with pytest.raises(Refused, match="no name"):
            use(name)


def test_a_fingerprint_is_found_by_its_beginning(ring: Keyring) -> None:
    one, _ = ring.new("one"), ring.new("other")
    assert ring.find(one.public.fingerprint[:16]).name == "one"
    with pytest.raises(NotFound):
        ring.find("zz")
    with pytest.raises(Refused, match="several"):
        ring.find("")


def test_the_files_of_trust_hold_no_private_key(ring: Keyring, root: Path) -> None:
    ring.signer()
    (file,) = (root / "trusted").iterdir()
    assert set(json.loads(file.read_text())) == {"name", "public"}
