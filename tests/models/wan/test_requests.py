"""Requests to the wan card: overrides of its sampling, refusals, and isolation from each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from restrike.cards.request import Arguments, Request, resolve
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.models.wan import prompts
from restrike.models.wan.sampler import plan

from .conftest import Checkpoints, wan_at
from .reference import pipeline, run
from .tiny import TinyWan, euler, unipc

REQUEST = Request(prompt="a red circle", seed=3, width=32, height=32, frames=5, steps=4)


def refusal(engine: Engine, folder: Path, request: Request) -> str:
    with pytest.raises(Refused) as refused:
        engine.generate(wan_at(folder), request)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"width": 40}, "width 40: card 'wan' takes multiples of 16"),
        ({"height": 24}, "height 24"),
        ({"width": 1024}, "from 16 to 512"),
        ({"frames": 8}, "frames 8: card 'wan' takes 4k + 1"),
        ({"solver": "heun"}, "solver 'heun'"),
        ({"image": np.zeros((8, 8, 3), np.uint8)}, "does not do image-to-video"),
        ({"prompt": "a red " * 400}, "the prompt has "),
        ({"negative_prompt": "a red " * 400}, "the negative prompt has "),
    ],
)
def test_what_is_refused(
    wan_engine: Engine, text_checkpoint: Path, changes: dict[str, Any], named: str
) -> None:
    assert named in refusal(wan_engine, text_checkpoint, replace(REQUEST, **changes))


def test_a_prompt_of_exactly_the_limit_is_read(wan_engine: Engine, text_checkpoint: Path) -> None:
    # One token a letter, one for the word mark, one for the end.
    fits = "é" * 510
    latent = wan_engine.generate(wan_at(text_checkpoint), replace(REQUEST, prompt=fits)).picture.latent
    assert latent is not None
    assert "has 513 tokens" in refusal(wan_engine, text_checkpoint, replace(REQUEST, prompt=fits + "é"))


def test_an_image_model_without_a_picture_is_refused(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    message = refusal(wan_engine, checkpoints(TinyWan(image=True)), REQUEST)
    assert "it does image-to-video" in message


def arguments_of(engine: Engine, folder: Path, request: Request) -> Arguments:
    return resolve(engine.load(wan_at(folder)).card, request)[1]


@pytest.mark.parametrize("solver", ["euler", "unipc"])
def test_a_request_overrides_solver_and_shift(wan_engine: Engine, text_checkpoint: Path, solver: str) -> None:
    request = replace(REQUEST, solver=solver, shift=7.0)
    ours = wan_engine.generate(wan_at(text_checkpoint), request)
    pipe = pipeline(text_checkpoint)
    pipe.scheduler = euler(shift=7.0) if solver == "euler" else unipc(flow_shift=7.0)
    assert ours.picture.latent is not None
    assert torch.equal(ours.picture.latent, run(pipe, ours.arguments).latent)
    recorded = ours.picture.provenance.arguments
    assert (recorded["solver"], recorded["shift"]) == (solver, 7.0)


@pytest.mark.parametrize("solver", ["euler", "unipc"])
def test_given_sigmas_are_the_schedule(wan_engine: Engine, text_checkpoint: Path, solver: str) -> None:
    sigmas = (1.0, 0.7, 0.2)
    asked = arguments_of(
        wan_engine, text_checkpoint, replace(REQUEST, steps=None, sigmas=sigmas, solver=solver)
    )
    settings = wan_engine.load(wan_at(text_checkpoint)).component("scheduler")
    schedule, _ = plan(settings, asked)
    scheduler = euler(shift=1.0) if solver == "euler" else unipc(flow_shift=1.0)
    scheduler.set_timesteps(sigmas=np.array(sigmas))
    assert torch.equal(schedule.sigmas, scheduler.sigmas)
    assert torch.equal(schedule.timesteps, scheduler.timesteps)


def test_the_stochastic_solver_runs(wan_engine: Engine, text_checkpoint: Path) -> None:
    request = replace(REQUEST, solver="sde")
    one, again = (wan_engine.generate(wan_at(text_checkpoint), request).picture for _ in range(2))
    assert len(one.log_probs) == 3
    assert one.latent is not None
    assert again.latent is not None
    assert torch.equal(one.latent, again.latent)


def test_interleaved_requests_equal_serial_ones(wan_engine: Engine, checkpoints: Checkpoints) -> None:
    card = wan_at(checkpoints(TinyWan(boundary_ratio=0.9)))
    requests = [
        replace(REQUEST, steps=5, guidance_2=2.0),
        replace(REQUEST, prompt="a blue square", seed=4, steps=3, solver="euler", width=48),
        replace(REQUEST, prompt="moving left", steps=4, guidance=1.0, items=(0, 1)),
    ]
    serial = [wan_engine.generate(card, request) for request in requests]
    interleaved = wan_engine.generate_interleaved([(card, request) for request in requests])
    for one, other in zip(serial, interleaved, strict=True):
        for a, b in zip(one.pictures, other.result().pictures, strict=True):
            assert a.latent is not None
            assert b.latent is not None
            assert torch.equal(a.latent, b.latent)
            assert np.array_equal(a.frames_THWC, b.frames_THWC)


def test_a_picture_of_a_batch_can_be_made_alone(wan_engine: Engine, text_checkpoint: Path) -> None:
    card = wan_at(text_checkpoint)
    batch = wan_engine.generate(card, replace(REQUEST, items=(0, 1, 2)))
    alone = wan_engine.generate(card, replace(REQUEST, items=(2,)))
    assert np.array_equal(batch.pictures[2].frames_THWC, alone.picture.frames_THWC)
    assert not np.array_equal(batch.pictures[1].frames_THWC, alone.picture.frames_THWC)


def test_the_checkpoints_scheduler_is_left_as_it_was(wan_engine: Engine, text_checkpoint: Path) -> None:
    settings = wan_engine.load(wan_at(text_checkpoint)).component("scheduler")
    before = dict(settings.config)
    wan_engine.generate(wan_at(text_checkpoint), replace(REQUEST, shift=9.0))
    assert dict(settings.config) == before


@pytest.mark.parametrize(
    "prompt",
    ["plain", "  two \n\t words ", "&amp;amp;lt;", "schÃ¶n", "“curly”", "ﬁne", "a\u00a0b", "\x1b[31mred"],
)
def test_prompts_are_cleaned_as_diffusers_does(prompt: str) -> None:
    from diffusers.pipelines.wan.pipeline_wan import prompt_clean

    assert prompts.cleaned(prompt) == prompt_clean(prompt)
