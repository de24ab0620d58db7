"""What of a request reaches a pipeline's call, and what is refused by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from restrike.cards.card import ModelCard
from restrike.cards.registry import card
from restrike.cards.request import Request, resolve
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.pipeline.call import Signature, call_arguments, playback_fps


def still(
    prompt, negative_prompt=None, num_inference_steps=20, guidance_scale=5.0, width=None, height=None,
    sigmas=None, eta=0.0, generator=None, output_type="pil", callback_on_step_end=None, **kwargs,
): ...  # fmt: skip


def clip(prompt, num_frames=81, frame_rate=24, guidance_scale=5.0, guidance_scale_2=None, generator=None): ...


def edit(
    image, prompt=None, true_cfg_scale=4.0, guidance_scale=None, negative_prompt=None, generator=None
): ...


def unseeded(prompt): ...


def promptless(image, fps=7, num_frames=None, generator=None): ...


def signature(call: Callable[..., Any], *, embedded: bool = False) -> Signature:
    parameters = dict(inspect.signature(call).parameters)
    parameters.pop("kwargs", None)
    return Signature("SomePipeline", parameters, embedded)


def said(function: Callable[..., Any], /, *, embedded: bool = False, **request: Any) -> dict[str, Any]:
    _, arguments = resolve(card("pipeline"), Request(**{"prompt": "a cat", **request}))
    return call_arguments(signature(function, embedded=embedded), arguments)


def test_what_was_not_asked_for_is_not_said() -> None:
    assert said(still) == {"prompt": "a cat"}


def test_each_field_has_its_argument() -> None:
    assert said(
        still, negative_prompt="dog", steps=3, guidance=2.5, width=64, height=32, call={"eta": 0.5}
    ) == {
        "prompt": "a cat",
        "negative_prompt": "dog",
        "num_inference_steps": 3,
        "guidance_scale": 2.5,
        "width": 64,
        "height": 32,
        "eta": 0.5,
    }
    assert said(clip, frames=9, fps=12.0, guidance_2=3.0) == {
        "prompt": "a cat",
        "num_frames": 9,
        "frame_rate": 12,
        "guidance_scale_2": 3,
    }
    assert said(still, sigmas=(1.0, 0.5)) == {"prompt": "a cat", "sigmas": [1.0, 0.5]}


def test_a_picture_is_handed_over_as_pil() -> None:
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    arguments = said(promptless, prompt="", image=pixels)
    np.testing.assert_array_equal(np.asarray(arguments.pop("image")), pixels)
    assert arguments == {}


@pytest.mark.parametrize(
    ("call", "request_", "words"),
    [
        (still, {"frames": 9}, "takes no frames"),
        (still, {"image": np.zeros((4, 4, 3), np.uint8)}, "takes no image"),
        (still, {"solver": "unipc"}, "takes no solver"),
        (still, {"shift": 3.0}, "takes no shift"),
        (still, {"guidance_interval": (0.1, 0.9)}, "takes no guidance_interval"),
        (still, {"guidance_every": 2}, "takes no guidance_every"),
        (still, {"guidance_mode": "none"}, "takes no guidance_mode"),
        (still, {"guidance_2": 2.0}, "takes no guidance_2"),
        (clip, {"width": 64}, "takes no width"),
        (clip, {"steps": 4}, "takes no steps"),
        (clip, {"negative_prompt": "grey"}, "takes no negative_prompt"),
        (promptless, {"image": np.zeros((4, 4, 3), np.uint8)}, "takes no prompt"),
        (still, {"prompt": " "}, "prompt is empty"),
        (still, {"width": 64}, "width and height are given together"),
        (unseeded, {}, "takes no generator"),
        (still, {"call": {"etta": 0.1}}, r"no call argument 'etta', did you mean 'eta'\?"),
        (still, {"call": {"kwargs": 0.1}}, "no call argument 'kwargs'"),
        (still, {"call": {"generator": 1}}, "'generator' is not free: seed and items"),
        (still, {"call": {"output_type": "latent"}}, "'output_type' is not free"),
        (still, {"steps": 3, "call": {"num_inference_steps": 4}}, "said twice, also as steps"),
    ],
)
def test_what_has_no_argument_is_refused_by_name(
    call: Callable[..., Any], request_: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        said(call, **request_)


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(Refused, match=r"no frames; SomePipeline takes no shift; .*'etta'"):
        said(still, frames=9, shift=3.0, call={"etta": 1})


def test_one_frame_of_a_still_is_no_fault() -> None:
    assert said(still, frames=1) == {"prompt": "a cat"}


def test_guidance_goes_where_it_is_read() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    classifier_free = said(edit, image=image, guidance=3.0, negative_prompt=" ")
    assert (classifier_free["true_cfg_scale"], "guidance_scale" in classifier_free) == (3, False)
    assert said(edit, image=image, guidance=3.0, embedded=True)["guidance_scale"] == 3
    with pytest.raises(Refused, match="guidance has no effect on SomePipeline without a negative_prompt"):
        said(edit, image=image, guidance=3.0)
    with pytest.raises(Refused, match=r"negative_prompt has no effect .* while true_cfg_scale is 1"):
        said(edit, image=image, negative_prompt="grey", call={"true_cfg_scale": 1.0}, embedded=True)


def test_the_frame_rate_of_a_clip_is_asked_or_the_pipelines() -> None:
    def fps(call: Callable[..., Any], **request: Any) -> float | None:
        _, arguments = resolve(card("pipeline"), Request(prompt="a cat", **request))
        return playback_fps(signature(call), arguments)

    assert (fps(clip), fps(clip, fps=12.0), fps(promptless), fps(still)) == (24.0, 12.0, 7.0, None)


def test_what_was_left_open_is_not_recorded() -> None:
    mask = np.zeros((2, 2), np.uint8)
    _, arguments = resolve(card("pipeline"), Request(prompt="a cat", steps=3, call={"mask_image": mask}))
    recorded = arguments.recorded()
    assert recorded.keys() == {"prompt", "steps", "call"}
    assert len(recorded["call"]["mask_image"]["digest"]) == 64
    assert resolve(card("digits"), Request(prompt="a seven"))[1].left_open == frozenset()


def test_the_pipelines_own_checks_are_refusals(
    pipeline_engine: Engine, card_of: Callable[[str], ModelCard]
) -> None:
    with pytest.raises(Refused, match=r"StableDiffusionPipeline refuses the request: .*divisible by"):
        pipeline_engine.generate(card_of("sd"), Request(prompt="a cat", width=31, height=32))
    with pytest.raises(Refused, match="LTXPipeline takes no image"):
        pipeline_engine.generate(
            card_of("ltx"), Request(prompt="a cat", image=np.zeros((32, 32, 3), np.uint8))
        )
