"""A second tier: what is interrupted goes on, what is there stays, what comes from it is verified."""

from __future__ import annotations

import builtins
import secrets
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mint.cells import HOST, TARGET, Making
from mint.rewriting import Parts
from restrike.errors import Crashed, NotFound, Refused, RestrikeError
from restrike.keys import Digest
from restrike.mint.cell import coding
from restrike.mint.cell.keyring import Keyring
from restrike.mint.store import tier as tiers
from restrike.mint.store.moving import pull, push
from restrike.mint.store.store import CellStore
from restrike.mint.store.tier import Listing, Tier


@pytest.fixture(params=["file", "memory"])
def tier(request: pytest.FixtureRequest, tmp_path: Path) -> Tier:
    """An empty place behind a URL."""
    if request.param == "file":
        return Tier((tmp_path / "tier").as_uri())
    return Tier(f"memory://{secrets.token_hex(8)}/cells")


@pytest.fixture
def elsewhere(tmp_path: Path, store: CellStore) -> CellStore:
    """The store of another machine, that trusts the first one's key."""
    found = CellStore(tmp_path / "elsewhere")
    found.ring.trust(store.ring.signer().public, "here")
    return found


def kept(store: CellStore, making: Making) -> Digest:
    file = making.sealed(store.root.parent / f"{secrets.token_hex(8)}.cell", store.ring.signer())
    store.publish(file)
    return Parts.of(file).key


def graph(number: int, **changed: Any) -> Making:
    return replace(Making().with_facts(graph=f"{number:064x}"), **changed)


def test_what_is_pushed_here_is_pulled_there(tier: Tier, store: CellStore, elsewhere: CellStore) -> None:
    assert tier.keys() == ()
    key = kept(store, graph(1))
    pushed = push(store, tier, [key])
    assert (pushed.moved, pushed.already, pushed.refused) == ((key,), 0, {})
    assert tier.keys() == (key,)
    pulled = pull(elsewhere, tier, [HOST], tier.keys())
    assert (pulled.moved, pulled.already, pulled.refused) == ((key,), 0, {})
    assert elsewhere.path(key).read_bytes() == store.path(key).read_bytes()
    with elsewhere.open(key, HOST):
        pass
    assert not list(elsewhere.partial.rglob("*.*"))
    # The second time nothing goes.
    assert (push(store, tier, [key]).already, pull(elsewhere, tier, [HOST], [key]).already) == (1, 1)


def test_the_first_writer_wins(tier: Tier, store: CellStore, tmp_path: Path) -> None:
    key = kept(store, graph(1))
    other = CellStore(tmp_path / "other")
    assert kept(other, graph(1).with_facts(compiler="clang")) == key
    assert tier.offer(key, store.path(key))
    before = tier.listing(key)
    assert not tier.offer(key, other.path(key))
    assert tier.listing(key) == before


def test_one_wrong_cell_of_each_sort_is_counted_under_its_name(
    tier: Tier, store: CellStore, elsewhere: CellStore, tmp_path: Path
) -> None:
    stranger = CellStore(tmp_path / "stranger")
    good = kept(store, graph(0))
    foreign = kept(store, graph(1, target=replace(TARGET, machine="aarch64", cpu="DEFAULT", order=0)))
    newer = kept(store, graph(2, target=replace(TARGET, cpu="AVX512", order=2)))
    torch = kept(store, graph(3, stack=replace(HOST.stack("aot"), torch="2.12.0")))
    push(store, tier, [good, foreign, newer, torch])
    unknown = kept(stranger, graph(4))
    push(stranger, tier, [unknown])
    tier._create(tier._cell(Digest("9" * 64)), coding.written(tier.listing(good)))
    pulled = pull(elsewhere, tier, [HOST], tier.keys())
    assert pulled.moved == (good,)
    assert pulled.refused == {
        "foreign architecture": 1,
        "newer CPU capability": 1,
        "other torch version": 1,
        "untrusted key": 1,
        "wrong key": 1,
    }


def test_what_the_header_refuses_is_not_fetched(
    store: CellStore, elsewhere: CellStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tier = Tier((tmp_path / "tier").as_uri())
    key = kept(store, graph(1))
    push(store, tier, [key])
    monkeypatch.setattr(tier, "_piece", lambda digest: pytest.fail("it was fetched"))
    pulled = pull(elsewhere, tier, [replace(HOST, torch="2.12.0")], [key])
    assert pulled.refused == {"other torch version": 1}


def test_any_device_of_the_machine_will_do(tier: Tier, store: CellStore, elsewhere: CellStore) -> None:
    key = kept(store, graph(1))
    push(store, tier, [key])
    gpu = replace(HOST, target=replace(TARGET, kind="cuda", gpu="sm_90"))
    assert pull(elsewhere, tier, [gpu], [key]).refused == {"foreign architecture": 1}
    assert pull(elsewhere, tier, [gpu, HOST], [key]).moved == (key,)


def large(number: int) -> Making:
    """A cell of several pieces, none like another."""
    return graph(number, members={"graph.cpp": secrets.token_bytes(5000)})


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "PIECE_BYTES", 1000)


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupted_push_sends_only_the_rest(
    tier: Tier, store: CellStore, elsewhere: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = kept(store, large(1))
    real, sent = tier._put, []

    def put(path: str, data: bytes) -> None:
        if len(sent) == 3:
            raise ConnectionError("the line is cut")
        sent.append(path)
        real(path, data)

    monkeypatch.setattr(tier, "_put", put)
    with pytest.raises(Crashed, match="the line is cut"):
        push(store, tier, [key])
    assert (len(sent), tier.keys()) == (3, ())
    monkeypatch.setattr(tier, "_put", lambda path, data: (sent.append(path), real(path, data)))
    assert push(store, tier, [key]).moved == (key,)
    assert len(sent) == len(set(sent)) == len(tier.listing(key).pieces)
    assert pull(elsewhere, tier, [HOST], [key]).moved == (key,)


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupted_pull_fetches_only_the_rest(
    tier: Tier, store: CellStore, elsewhere: CellStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = kept(store, large(1))
    push(store, tier, [key])
    real, fetched = tier._piece, []

    def piece(digest: Digest) -> bytes:
        if len(fetched) == 3:
            raise Crashed("the line is cut")
        fetched.append(digest)
        return real(digest)

    monkeypatch.setattr(tier, "_piece", piece)
    with pytest.raises(Crashed, match="the line is cut"):
        pull(elsewhere, tier, [HOST], [key])
    assert not elsewhere.has(key)
    monkeypatch.setattr(tier, "_piece", lambda digest: (fetched.append(digest), real(digest))[1])
    assert pull(elsewhere, tier, [HOST], [key]).moved == (key,)
    assert len(fetched) == len(set(fetched)) == len(tier.listing(key).pieces)
    assert not list(elsewhere.partial.rglob("*.*"))


@pytest.mark.usefixtures("small_pieces")
def test_a_piece_that_a_dead_writer_left_short_is_sent_again(
    store: CellStore, elsewhere: CellStore, tmp_path: Path
) -> None:
    tier = Tier((tmp_path / "tier").as_uri())
    key = kept(store, large(1))
    push(store, tier, [key])
    torn = Path(tier._place(tier.listing(key).pieces[1]))
    torn.write_bytes(torn.read_bytes()[:10])
    assert pull(elsewhere, tier, [HOST], [key]).refused == {"flipped bytes": 1}
    assert not tier.offer(key, store.path(key))
    assert pull(elsewhere, tier, [HOST], [key]).moved == (key,)


def test_a_missing_piece_is_named(store: CellStore, elsewhere: CellStore, tmp_path: Path) -> None:
    tier = Tier((tmp_path / "tier").as_uri())
    key = kept(store, graph(1))
    push(store, tier, [key])
    Path(tier._place(tier.listing(key).pieces[0])).unlink()
    assert pull(elsewhere, tier, [HOST], [key]).refused == {"truncated": 1}
    assert not elsewhere.has(key)


def test_a_whole_cell_behind_another_head_is_refused(
    tier: Tier, store: CellStore, elsewhere: CellStore, tmp_path: Path
) -> None:
    # The listing is nobody's word: the head in it passes, the file that it leads to is by a stranger.
    key = kept(store, graph(1))
    stranger = CellStore(tmp_path / "stranger")
    kept(stranger, graph(1))
    tier.offer(Digest("8" * 64), stranger.path(key))
    theirs = tier.listing(Digest("8" * 64))
    data = store.path(key).read_bytes()
    head = data[: len(theirs.head)]
    tier._create(tier._cell(key), coding.written(replace(theirs, head=head, size_bytes=len(data))))
    assert pull(elsewhere, tier, [HOST], [key]).refused == {"untrusted key": 1}


def test_a_refused_cell_is_not_pushed(tier: Tier, store: CellStore) -> None:
    key = kept(store, graph(1))
    store.path(key).write_bytes(b"RESTRIKE CELL 1\n")
    pushed = push(store, tier, [key])
    assert (pushed.moved, pushed.refused) == ((), {"truncated": 1})
    assert tier.keys() == ()


def test_what_is_not_there_is_not_found(tier: Tier, store: CellStore) -> None:
    with pytest.raises(NotFound, match="no cell of key"):
        pull(store, tier, [HOST], [Digest("1" * 64)])
    with pytest.raises(NotFound, match="no cell of key"):
        push(store, tier, [Digest("1" * 64)])


def test_a_listing_that_is_none_is_counted(tier: Tier, store: CellStore) -> None:
    for number, content in enumerate(
        (b"", b"nonsense", coding.written(Listing(head=b"", size_bytes=0, pieces=())))
    ):
        key = Digest(f"{number:064x}")
        tier._create(tier._cell(key), content)
    pulled = pull(store, tier, [HOST], tier.keys())
    assert pulled.refused == {"malformed": 2, "no header": 1}


def test_an_unknown_kind_of_place_is_refused() -> None:
    with pytest.raises(Refused, match="nope"):
        Tier("nope://bucket/cells")


def test_a_kind_of_place_whose_package_is_missing_is_refused_by_its_name() -> None:
    with pytest.raises(Refused, match="s3fs"):
        Tier("s3://bucket/cells")


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *given: Any, **named: Any) -> Any:
        if name.startswith("fsspec"):
            raise ImportError(name)
        return real(name, *given, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(Refused, match=r"restrike\[remote\]"):
        Tier("memory://x")


def test_failures_of_the_other_side_are_typed(tier: Tier, monkeypatch: pytest.MonkeyPatch) -> None:
    for error, kind in (
        (PermissionError("no"), Refused),
        (RuntimeError("odd"), Crashed),
        (OSError("line"), Crashed),
    ):

        def failing(*given: Any, error: Exception = error, **named: Any) -> Any:
            raise error

        monkeypatch.setattr(tier._files, "exists", failing)
        with pytest.raises(kind, match="cells at") as caught:
            tier.has(Digest("1" * 64))
        assert isinstance(caught.value, RestrikeError)


def test_keys_are_not_taken_from_names_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "tier" / "cells").mkdir(parents=True)
    for name in ("readme", "Z" * 64, "a" * 64):
        (tmp_path / "tier" / "cells" / name).touch()
    assert Tier((tmp_path / "tier").as_uri()).keys() == (Digest("a" * 64),)


def test_a_ring_is_not_sent(tier: Tier, store: CellStore) -> None:
    key = kept(store, graph(1))
    push(store, tier, [key])
    private = (store.root / "keys" / "own" / "local.pem").read_bytes()
    listing = tier.listing(key)
    assert not any(private[30:60] in tier._piece(piece) for piece in listing.pieces)
    assert isinstance(store.ring, Keyring)
