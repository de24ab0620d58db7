"""Picture k of a request comes from (seed, k) alone."""

from __future__ import annotations

import pytest
import torch

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.loops.noise import item_generator

from .driving import bytes_of


def request(items: tuple[int, ...], solver: str, seed: int = 21) -> Request:
    return Request(prompt="a 4", seed=seed, items=items, solver=solver, steps=4)


@pytest.mark.parametrize("solver", ["euler", "sde", "unipc"])
def test_a_picture_is_made_again_alone_at_any_batch_size(engine: Engine, solver: str) -> None:
    three = bytes_of(engine, request((0, 1, 2), solver))
    assert len(set(three.values())) == 3
    for item in three:
        assert bytes_of(engine, request((item,), solver)) == {item: three[item]}
    assert bytes_of(engine, request((2, 0), solver)) == {2: three[2], 0: three[0]}
    five = bytes_of(engine, request((0, 1, 2, 3, 4), solver))
    assert {item: five[item] for item in three} == three


def test_pictures_come_in_the_order_of_the_items_and_say_which_they_are(engine: Engine) -> None:
    generation = engine.generate("digits", request((5, 0, 3), "euler"))
    assert [picture.item for picture in generation.pictures] == [5, 0, 3]
    assert [picture.provenance.item for picture in generation.pictures] == [5, 0, 3]
    assert {picture.provenance.seed for picture in generation.pictures} == {generation.seed} == {21}


def test_a_request_without_a_seed_draws_one_and_can_be_repeated(engine: Engine) -> None:
    first = engine.generate("digits", Request(prompt="a 4"))
    second = engine.generate("digits", Request(prompt="a 4"))
    assert first.seed != second.seed
    again = engine.generate("digits", Request(prompt="a 4", seed=first.seed))
    assert again.picture.frames_THWC.tobytes() == first.picture.frames_THWC.tobytes()


def test_no_two_pictures_share_their_noise(engine: Engine) -> None:
    made = [bytes_of(engine, request((0, 1, 2), "euler", seed)) for seed in range(4)]
    assert len({content for contents in made for content in contents.values()}) == 12


def test_the_engine_leaves_the_global_random_state_alone(engine: Engine) -> None:
    before = torch.random.get_rng_state()
    expected = bytes_of(engine, request((0, 1), "sde"))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(99)
    assert bytes_of(engine, request((0, 1), "sde")) == expected


def test_the_first_latent_is_the_seeds_own_noise() -> None:
    ours = torch.randn(4, generator=item_generator(7, 0))
    assert torch.equal(ours, torch.randn(4, generator=torch.Generator().manual_seed(7)))
