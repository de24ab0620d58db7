from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from restrike.loops.noise import item_generator, normal

SHAPE = (1, 4, 5, 3)
CPU = torch.device("cpu")
SEEDS = st.integers(0, 2**53 - 1)


def noise(seed: int, item: int, purpose: str = "latent") -> torch.Tensor:
    return normal(SHAPE, item_generator(seed, item, purpose), CPU)


@given(seed=SEEDS)
def test_item_zero_is_what_a_plain_generator_of_the_seed_draws(seed: int) -> None:
    assert torch.equal(noise(seed, 0), torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)))


@given(seed=SEEDS, item=st.integers(0, 999))
def test_an_item_depends_on_its_seed_and_index_alone(seed: int, item: int) -> None:
    alone = noise(seed, item)
    batch = {index: noise(seed, index) for index in (item + 1, item, 0)}
    assert torch.equal(batch[item], alone)


@given(seed=SEEDS, item=st.integers(0, 999))
def test_neighbours_and_purposes_share_no_noise(seed: int, item: int) -> None:
    drawn = [
        noise(seed, item),
        noise(seed, item + 1),
        noise(seed ^ 1, item),
        noise(seed, item, "solver"),
        noise(seed, item + 1, "solver"),
    ]
    assert len({tuple(each.flatten().tolist()) for each in drawn}) == len(drawn)


def test_the_global_random_state_is_neither_read_nor_moved() -> None:
    before = torch.get_rng_state()
    first = noise(3, 2)
    assert torch.equal(torch.get_rng_state(), before)
    with torch.random.fork_rng():
        torch.manual_seed(99)
        assert torch.equal(noise(3, 2), first)
        # The control: a draw without a generator does depend on it.
        assert not torch.equal(torch.randn(SHAPE), torch.randn(SHAPE))


def test_noise_is_standard_normal_float32() -> None:
    drawn = normal((1, 100_000), item_generator(1, 1), CPU)
    assert drawn.dtype == torch.float32
    assert abs(float(drawn.mean())) < 0.02
    assert abs(float(drawn.std()) - 1) < 0.02
