from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restrike.cards.card import LoopSpec, ModelCard, Recipe, Task
from restrike.cards.request import Arguments, Request, resolve
from restrike.errors import Refused, RestrikeError

from .samples import CARD, LOOP, with_defaults, with_loop

IMAGE = np.zeros((4, 6, 3), np.uint8)
DISTILLED = with_defaults(replace(CARD, recipe=Recipe(method="DMD", loop="denoise", steps=(4, 4))), steps=4)
GUIDED = with_loop(guidance=("embedded",))


def asked(card: ModelCard = CARD, **arguments: Any) -> Arguments:
    return resolve(card, Request(**{"prompt": "a cat", **arguments}))[1]


def refusal(card: ModelCard = CARD, **arguments: Any) -> str:
    with pytest.raises(Refused) as caught:
        asked(card, **arguments)
    message = str(caught.value)
    assert "\n" not in message
    return message


# What a request says comes before what the card says.

ASKED: dict[str, Any] = {
    "negative_prompt": "dark",
    "steps": 7,
    "guidance": 2.5,
    "guidance_mode": "batched",
    "width": 48,
    "height": 96,
    "frames": 5,
    "fps": 25.0,
    "solver": "euler",
    "shift": 1.5,
}


@pytest.mark.parametrize("name", ASKED)
def test_a_field_is_the_cards_until_the_request_says_otherwise(name: str) -> None:
    assert getattr(asked(), name) == getattr(CARD.defaults, name)
    assert getattr(asked(**{name: ASKED[name]}), name) == ASKED[name]


def test_every_default_of_a_card_has_a_field_that_overrides_it() -> None:
    assert set(ASKED) == {part.name for part in fields(CARD.defaults)}


def test_the_second_guidance_follows_the_first() -> None:
    assert asked().guidance_2 == 4.5
    assert asked(guidance=3.0).guidance_2 == 3.0
    assert asked(guidance=3.0, guidance_2=2.0).guidance_2 == 2.0


def test_a_seed_is_kept_or_drawn_anew() -> None:
    assert asked(seed=0).seed == 0
    assert asked(seed=2**53 - 1).seed == 2**53 - 1
    drawn = {asked().seed for _ in range(8)}
    assert len(drawn) == 8
    assert all(0 <= seed < 2**53 for seed in drawn)


def test_sigmas_decide_the_number_of_steps() -> None:
    settled = asked(sigmas=[1.0, 0.5, 0.25])
    assert settled.sigmas == (1.0, 0.5, 0.25)
    assert settled.steps == 3


def test_numpy_numbers_become_plain_ones() -> None:
    settled = asked(seed=np.int64(7), steps=np.int32(5), guidance=np.float32(2.5), items=[np.int64(1)])
    assert type(settled.seed) is type(settled.steps) is type(settled.items[0]) is int
    assert type(settled.guidance) is float
    assert settled.items == (1,)


def test_what_is_recorded_asks_for_the_same_again() -> None:
    first = asked(seed=3, sigmas=(1.0, 0.5), guidance=2.0, guidance_every=2, frames=5)
    again = asked(**first.recorded() | {"seed": first.seed, "items": first.items})
    assert again == first


# Which loop serves it.


def card_for(*tasks: Task) -> ModelCard:
    return with_loop(tasks=tasks)


@pytest.mark.parametrize(
    ("tasks", "arguments", "expected"),
    [
        ((Task.TEXT_TO_IMAGE, Task.TEXT_TO_VIDEO), {"frames": 1}, Task.TEXT_TO_IMAGE),
        ((Task.TEXT_TO_IMAGE, Task.TEXT_TO_VIDEO), {"frames": 5}, Task.TEXT_TO_VIDEO),
        ((Task.TEXT_TO_VIDEO,), {"frames": 1}, Task.TEXT_TO_VIDEO),
        ((Task.TEXT_TO_IMAGE,), {"frames": 1}, Task.TEXT_TO_IMAGE),
        ((Task.IMAGE_TO_IMAGE, Task.IMAGE_TO_VIDEO), {"frames": 1, "image": IMAGE}, Task.IMAGE_TO_IMAGE),
        ((Task.TEXT_TO_IMAGE, Task.IMAGE_TO_VIDEO), {"frames": 1, "image": IMAGE}, Task.IMAGE_TO_VIDEO),
        ((Task.IMAGE_TO_IMAGE,), {"frames": 1, "image": IMAGE}, Task.IMAGE_TO_IMAGE),
    ],
)
def test_the_task_follows_from_the_image_and_the_frames(
    tasks: tuple[Task, ...], arguments: dict[str, Any], expected: Task
) -> None:
    assert asked(card_for(*tasks), **arguments).task == expected


def test_the_loop_that_serves_the_task_is_chosen() -> None:
    still: LoopSpec = replace(LOOP, name="still", tasks=(Task.TEXT_TO_IMAGE,))
    card = replace(CARD, loops=(replace(LOOP, tasks=(Task.TEXT_TO_VIDEO,)), still))
    assert resolve(card, Request(prompt="a cat", frames=1))[0].name == "still"
    assert resolve(card, Request(prompt="a cat"))[0].name == "denoise"


def test_a_task_that_no_loop_serves_names_those_that_are() -> None:
    message = refusal(image=IMAGE)
    assert message == "card 'sample' does not do image-to-video; it does text-to-video, text-to-image"


# What is refused, each by its own words.

NAN, INF = float("nan"), float("inf")
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"prompt": ""}, "prompt is empty"),
    ({"prompt": " \n\t"}, "prompt is empty"),
    ({"prompt": None}, "prompt None is not a text"),
    ({"negative_prompt": 3}, "negative_prompt 3 is not a text"),
    ({"seed": -1}, "seed -1 is not an integer from 0 to 9007199254740991"),
    ({"seed": 2**53}, "seed 9007199254740992 is not an integer from 0 to 9007199254740991"),
    ({"seed": 1.5}, "seed 1.5 is not a whole number"),
    ({"seed": True}, "seed True is not a whole number"),
    ({"items": ()}, "no picture is asked for"),
    ({"items": (0, 0)}, "items (0, 0) are not distinct"),
    ({"items": (-1,)}, "items (-1,) are not distinct indices from 0"),
    ({"items": tuple(range(1001))}, "1001 pictures in one request; at most 1000"),
    ({"items": 4}, "items 4 is not a list of whole numbers"),
    ({"steps": 0}, "steps 0 is not at least 1"),
    ({"steps": -3}, "steps -3 is not at least 1"),
    ({"steps": "4"}, "steps '4' is not a whole number"),
    ({"steps": 101}, "steps 101: the weights of 'sample' (flow matching) assume 2 to 100"),
    ({"guidance": NAN}, "guidance nan is not a number from 0 to 1000"),
    ({"guidance": INF}, "guidance inf is not a number from 0 to 1000"),
    ({"guidance": -1}, "guidance -1.0 is not a number from 0 to 1000"),
    ({"guidance": "7"}, "guidance '7' is not a number"),
    ({"guidance": 10**400}, "is not a number"),
    ({"guidance_2": NAN}, "guidance_2 nan is not a number from 0 to 1000"),
    ({"shift": 0}, "shift 0.0 is not a number from 0.01 to 100"),
    ({"shift": NAN}, "shift nan is not a number"),
    ({"fps": 0}, "fps 0.0 is not a number from 0.1 to 1000"),
    ({"fps": INF}, "fps inf is not a number"),
    ({"guidance_interval": (0.8, 0.2)}, "guidance_interval (0.8, 0.2) is not an ascending range"),
    ({"guidance_interval": (NAN, 1.0)}, "guidance_interval (nan, 1.0) is not an ascending range"),
    ({"guidance_interval": 0.5}, "guidance_interval 0.5 is not a range of two numbers"),
    ({"guidance_interval": None}, "guidance_interval None is not a range"),
    ({"guidance_every": 0}, "guidance_every 0 is not at least 1"),
    ({"width": 65}, "width 65: card 'sample' takes multiples of 16 from 32 to 128; the nearest is 64"),
    ({"width": 10**400}, "the nearest is 128"),
    ({"height": 16}, "height 16: card 'sample' takes multiples of 16 from 32 to 128; the nearest is 32"),
    ({"frames": 8}, "frames 8: card 'sample' takes 4k + 1 from 1 to 33; the nearest is 9"),
    ({"frames": 0}, "frames 0: card 'sample' takes 4k + 1 from 1 to 33; the nearest is 1"),
    ({"width": 64.0}, "width 64.0 is not a whole number"),
    ({"solver": "heun"}, "solver 'heun' is not offered by loop 'denoise': euler, unipc"),
    ({"guidance_mode": "embedded"}, "guidance_mode 'embedded' is not offered by loop 'denoise'"),
    ({"sigmas": ()}, "sigmas do not descend"),
    ({"sigmas": (0.5, 0.5)}, "sigmas do not descend"),
    ({"sigmas": (0.5, 0.5 - 1e-12)}, "sigmas do not descend"),
    ({"sigmas": (0.2, 0.8)}, "sigmas do not descend"),
    ({"sigmas": (1.5, 0.5)}, "sigmas do not descend"),
    ({"sigmas": (1.0, 0.0)}, "sigmas do not descend"),
    ({"sigmas": (1.0, NAN)}, "sigmas do not descend"),
    ({"sigmas": (1.0, "0.5")}, "is not a list of numbers"),
    ({"sigmas": (1.0, 0.5), "steps": 3}, "steps 3 contradicts the 2 sigmas"),
    ({"image": "cat.png"}, "image 'cat.png' is not a picture (height x width x 3, uint8)"),
    ({"image": IMAGE.astype(np.float32)}, "is not a picture"),
    ({"image": IMAGE[..., :2]}, "is not a picture"),
    ({"image": IMAGE[:0]}, "is not a picture"),
    ({"call": {"eta": 8}}, "card 'sample' takes no pipeline arguments, but call has 'eta'"),
    ({"solver": "a\nb"}, "solver 'a b' is not offered"),
    ({"call": [1]}, "call [1] is not a mapping"),
    ({"exact": 1}, "exact 1 is not true or false"),
    # Arguments that would be read by nothing.
    ({"guidance_mode": "none", "guidance": 7}, "guidance 7.0 has no effect, since guidance_mode is 'none'"),
    ({"guidance_mode": "none", "guidance_every": 2}, "guidance_every 2 has no effect"),
    (
        {"guidance_mode": "none", "guidance_interval": (0.2, 0.8)},
        "guidance_interval (0.2, 0.8) has no effect",
    ),
    ({"guidance_mode": "none", "negative_prompt": "dark"}, "negative_prompt has no effect"),
    ({"guidance": 1, "negative_prompt": "dark"}, "negative_prompt has no effect"),
    ({"sigmas": (1.0, 0.5), "shift": 2.0}, "shift 2.0 has no effect, since sigmas are given"),
]


@pytest.mark.parametrize(("arguments", "words"), REFUSED, ids=lambda part: str(part)[:60])
def test_bad_arguments_are_refused_by_name(arguments: dict[str, Any], words: str) -> None:
    assert words in refusal(**arguments)


def test_all_faults_come_at_once() -> None:
    message = refusal(prompt=" ", steps=0, guidance=NAN, width=65, solver="heun", seed=-1, shift=-1)
    for name in ("prompt", "steps", "guidance", "width", "solver", "seed", "shift"):
        assert name in message
    assert message.count("guidance") == 1, "one wrong number is one fault"


def test_values_of_the_wrong_kind_come_at_once_too() -> None:
    message = refusal(steps="many", seed="lucky", items="ab")
    assert message.count("; ") == 2


def test_a_distilled_card_refuses_the_steps_of_its_base() -> None:
    assert asked(DISTILLED).steps == 4
    assert refusal(DISTILLED, steps=50) == "steps 50: the weights of 'sample' (DMD) assume 4"
    assert "assume 4" in refusal(DISTILLED, sigmas=(1.0, 0.5))


def test_a_solver_that_a_loop_does_not_choose_is_refused() -> None:
    assert "has no effect: loop 'denoise' has its own" in refusal(with_loop(solvers=()), solver="euler")


def test_embedded_guidance_has_no_branches_to_reuse() -> None:
    card = with_defaults(GUIDED, guidance_mode="embedded")
    assert asked(card, guidance=7).guidance == 7
    assert "guidance_every 2 has no effect" in refusal(card, guidance_every=2)
    assert "negative_prompt has no effect" in refusal(card, negative_prompt="dark")


def test_a_pipeline_reads_its_own_arguments() -> None:
    card = replace(CARD, takes_call_arguments=True)
    assert asked(card, call={"strength": 0.5}).call == {"strength": 0.5}
    assert asked(card, guidance_mode="none", guidance=7, negative_prompt="dark").guidance == 7


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.binary(max_size=4),
    st.lists(st.floats(), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)


@given(name=st.sampled_from([part.name for part in fields(Request)]), value=ANYTHING)
def test_any_value_is_served_or_refused_in_one_line(name: str, value: Any) -> None:
    request = Request(**{"prompt": "a cat", name: value})
    message = ""
    try:
        assert isinstance(resolve(CARD, request)[1], Arguments)
    except RestrikeError as error:
        message = str(error)
    assert "\n" not in message
    assert not message or name in message or name == "items"
