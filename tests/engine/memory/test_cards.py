"""Real cards under a limit: what moves and comes back changes no picture, and is what it says it is."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from restrike.cards.card import ModelCard, Task
from restrike.cards.checkpoint import Folder, Packaged
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.gate import contents
from restrike.engine.memory.parts import Place
from restrike.engine.memory.residency import Asleep
from restrike.engine.memory.turn import Turn
from restrike.errors import Refused, Shortfall, Unknown
from restrike.keys import Digest
from restrike.models.digits.card import CARD

SEVEN = Request(prompt="a seven", seed=1, steps=2)
TRANSFORMER_BYTES = 2_174_608


def copies(*names: str) -> tuple[ModelCard, ...]:
    """Digits under other names: cards of their own, with components of their own."""
    return tuple(replace(CARD, name=name) for name in names)


def one_at_a_time() -> Engine:
    """An engine with room for one digits card and its activations, and not for two."""
    return Engine(device="cpu", memory_limit_bytes=int(1.5 * TRANSFORMER_BYTES))


def evicted(engine: Engine) -> int:
    """How often a component had to go."""
    return sum(sum(each.evictions.values()) for each in engine.memory())


@pytest.fixture(scope="module")
def alone() -> dict[int, Digest]:
    """What SEVEN gives with all the memory in the world."""
    return contents(Engine(device="cpu").generate(CARD, SEVEN))


def test_the_sizes_are_those_of_the_real_tensors(engine: Engine) -> None:
    resident = engine.load("digits")
    module = resident.component("transformer")
    (part,) = resident.parts("transformer")
    assert part.size_bytes == sum(each.nbytes for each in module.parameters()) == TRANSFORMER_BYTES


@pytest.mark.parametrize("name", ["text_encoder", "transformer", "decoder"])
def test_what_is_expected_before_loading_is_what_is_measured_after(name: str) -> None:
    resident = Engine(device="cpu").load("digits")
    (part,) = resident.parts(name)
    expected = part.size_bytes
    assert resident.loaded() == ()
    resident.component(name)
    assert part.size_bytes == expected


def test_two_cards_in_the_room_of_one_change_no_picture(alone: dict[int, Digest]) -> None:
    engine = one_at_a_time()
    one, other = copies("one", "other")
    for card in (one, other, one):
        assert contents(engine.generate(card, SEVEN)) == alone
    assert evicted(engine) >= 2
    (found,) = engine.memory()
    assert found.resident_bytes <= found.limit.size_bytes
    assert not found.reserved


def test_with_room_for_both_nothing_moves(alone: dict[int, Digest]) -> None:
    engine = Engine(device="cpu")
    for card in copies("one", "other") * 2:
        assert contents(engine.generate(card, SEVEN)) == alone
    assert evicted(engine) == 0


def test_two_devices_would_not_share_a_residency_but_cards_of_one_do(engine: Engine) -> None:
    one, other = (engine.load(card) for card in copies("one", "other"))
    assert one.residency is other.residency
    assert one.turn is other.turn
    assert Engine(device="cpu").load("digits").residency is not one.residency


def test_loops_of_a_card_share_its_components_and_their_bytes() -> None:
    again = replace(CARD.loops[0], name="again", tasks=(Task.IMAGE_TO_IMAGE,))
    engine = Engine(device="cpu")
    resident = engine.load(replace(CARD, loops=(CARD.loops[0], again)))
    seen: list[object] = []
    for spec in resident.card.loops:
        resident.loop(spec)
        seen += [resident.component(name) for name in spec.components]
    assert len(set(map(id, seen))) == 3
    assert engine.memory()[0].resident_bytes == sum(part.size_bytes for part in resident.parts())


class TestSleep:
    def test_a_picture_after_waking_is_the_picture_before(self, alone: dict[int, Digest]) -> None:
        engine = Engine(device="cpu")
        resident = engine.load("digits")
        assert contents(engine.generate("digits", SEVEN)) == alone
        resident.sleep()
        (found,) = engine.memory()
        assert found.resident_bytes == 0
        with pytest.raises(Asleep, match="component 'text_encoder' of card 'digits' is asleep; call wake"):
            engine.generate("digits", replace(SEVEN, prompt="an eight"))
        resident.wake()
        assert contents(engine.generate("digits", SEVEN)) == alone

    def test_a_component_sleeps_by_itself(self) -> None:
        engine = Engine(device="cpu")
        resident = engine.load("digits")
        resident.sleep("transformer")
        with pytest.raises(Asleep, match="wake\\('transformer'\\)"):
            engine.generate("digits", SEVEN)
        assert resident.component("decoder")

    def test_an_unknown_component_is_named(self, engine: Engine) -> None:
        with pytest.raises(Unknown, match="unknown component 'transfomer', did you mean 'transformer'"):
            engine.load("digits").sleep("transfomer")

    def test_graphs_of_what_sleeps_are_evicted(self) -> None:
        told: list[tuple[str | None, str]] = []

        class Keeper:
            def evict(self, component: str | None, reason: str) -> None:
                told.append((component, reason))

        resident = Engine(device="cpu").load("digits")
        resident.component("transformer")
        resident.capturer = Keeper()  # pyright: ignore[reportAttributeAccessIssue]
        resident.sleep()
        assert told == [("transformer", "asleep")]

    def test_changed_weights_come_back_as_they_were(self) -> None:
        engine = Engine(device="cpu")
        resident = engine.load("digits")
        decoder = resident.component("decoder")
        decoder.mean_HW.mul_(0.5)
        resident.changed("decoder")
        before = contents(engine.generate("digits", SEVEN))
        resident.sleep("decoder")
        resident.wake("decoder")
        assert contents(engine.generate("digits", SEVEN)) == before


class TestIdentity:
    @pytest.fixture
    def card(self, tmp_path: Path) -> ModelCard:
        """Digits on a copy of its weights that may be edited."""
        for file in Packaged("restrike.models.digits").resolve(()).root.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        return replace(CARD, location=Folder(tmp_path))

    @staticmethod
    def edit(card: ModelCard) -> None:
        assert isinstance(card.location, Folder)
        file = card.location.path / "transformer.safetensors"
        weights = bytearray(file.read_bytes())
        weights[-1] ^= 1
        file.write_bytes(weights)

    def test_a_reload_of_changed_files_has_their_identity(self, card: ModelCard) -> None:
        engine = Engine(device="cpu")
        first = engine.generate(card, SEVEN)
        self.edit(card)
        kept = engine.generate(card, SEVEN)
        assert kept.picture.provenance.weights == first.picture.provenance.weights
        resident = engine.load(card)
        resident.sleep("transformer")
        resident.wake("transformer")
        again, fresh = engine.generate(card, SEVEN), Engine(device="cpu").generate(card, SEVEN)
        assert again.picture.provenance.weights == fresh.picture.provenance.weights
        assert again.picture.provenance.weights != first.picture.provenance.weights
        assert contents(again) == contents(fresh)

    def test_no_request_computes_with_both(self, card: ModelCard) -> None:
        engine = Engine(device="cpu")
        resident = engine.load(card)
        running = engine.stream(card, replace(SEVEN, steps=4))
        for _ in range(3):
            next(running)
        resident.sleep("transformer")
        self.edit(card)
        with pytest.raises(Refused, match="component 'transformer' of card 'digits' changed while requests"):
            resident.wake("transformer")
        running.close()
        resident.wake("transformer")
        assert engine.generate(card, SEVEN)

    def test_the_same_files_are_no_change(self, card: ModelCard) -> None:
        engine = Engine(device="cpu")
        running = engine.stream(card, replace(SEVEN, steps=4))
        for _ in range(3):
            next(running)
        engine.load(card).sleep("transformer")
        engine.load(card).wake("transformer")
        assert list(running)


class TestTurns:
    def generated(self, engine: Engine) -> list[dict[int, Digest]]:
        """Three threads, each with requests for both of two cards."""
        cards = copies("one", "other")
        jobs = [(cards[n % 2], replace(SEVEN, seed=n % 3)) for n in range(12)]
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(lambda job: contents(engine.generate(*job)), jobs))

    def test_threads_on_two_cards_of_one_device_get_their_own_bytes(self) -> None:
        engine = Engine(device="cpu")
        expected = [contents(engine.generate(CARD, replace(SEVEN, seed=n % 3))) for n in range(12)]
        assert self.generated(Engine(device="cpu")) == expected
        assert self.generated(one_at_a_time()) == expected

    def test_one_step_at_a_time_runs_on_a_device(self, monkeypatch: pytest.MonkeyPatch) -> None:
        depth: list[int] = []
        entered = Turn.__enter__

        def watched(turn: Turn) -> Turn:
            entered(turn)
            depth.append(len(turn._frames))
            return turn

        monkeypatch.setattr(Turn, "__enter__", watched)
        self.generated(Engine(device="cpu"))
        # Turns of several threads at once would lie in one another deeper than those of one request.
        assert max(depth) <= 3


def rss_bytes() -> int:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def alternate(engine: Engine, cards: tuple[ModelCard, ...], count: int, check: Callable[[int], None]) -> None:
    for number in range(count):
        engine.generate(cards[number % 3], replace(SEVEN, steps=1, seed=number % 5))
        check(number)


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_memory_is_flat_over_alternating_requests_on_three_cards(count: int) -> None:
    engine, cards = one_at_a_time(), copies("one", "two", "three")
    counted: list[int] = []
    sizes: list[int] = []

    def check(number: int) -> None:
        (found,) = engine.memory()
        assert found.resident_bytes <= found.limit.size_bytes
        assert not found.reserved
        if number % (count // 10) == 0:
            gc.collect()
            counted.append(found.resident_bytes)
            sizes.append(rss_bytes())

    alternate(engine, cards, count, check)
    assert evicted(engine) >= count - 5
    assert max(counted) <= 1.01 * counted[0]
    assert sizes[-1] - sizes[2] < TRANSFORMER_BYTES
    one_step = replace(SEVEN, steps=1, seed=0)
    expected = contents(Engine(device="cpu").generate(CARD, one_step))
    assert all(contents(engine.generate(card, one_step)) == expected for card in cards)


def test_what_can_never_fit_is_refused_at_once_and_loads_nothing() -> None:
    engine = Engine(device="cpu", memory_limit_bytes=1_000_000)
    with pytest.raises(Shortfall, match=r"card 'digits' needs 2.2 MB at once on cpu .* may use 1.0 MB"):
        engine.generate("digits", SEVEN)
    assert engine.load("digits").loaded() == ()
    assert all(part.place is Place.ABSENT for part in engine.load("digits").parts())
