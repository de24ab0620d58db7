"""Adapters of a request on a published pipeline: in modules of the request's own, gone with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from restrike.cards.adapters import Adapter
from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request, resolve
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.keys import file_digest
from restrike.models.pipeline.adapters import adapted_copy
from restrike.models.pipeline.options import Adapter as Loaded
from restrike.models.pipeline.options import PipelineOptions, card_with
from workflow.tiny_pipelines import lora

pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, folder_of: Callable[[str], Path]) -> list[Path]:
    """Two LoRAs of the tiny Stable Diffusion."""
    folder = tmp_path_factory.mktemp("loras")
    return [lora(folder / f"{seed}.safetensors", folder_of("sd"), seed=seed) for seed in (1, 2)]


def asked(*adapters: Adapter) -> Request:
    call = {"num_inference_steps": 2, "width": 32, "height": 32}
    return Request(prompt="a cat", seed=3, call=call, adapters=adapters)


def made(engine: Engine, card: ModelCard, *adapters: Adapter) -> bytes:
    return engine.generate(card, asked(*adapters)).picture.frames_THWC.tobytes()


def test_each_stack_makes_its_own_picture_and_the_base_stays(
    pipeline_engine: Engine, card_of: Callable[[str], ModelCard], files: list[Path]
) -> None:
    card, (a, b) = card_of("sd"), files
    pipeline = pipeline_engine.load(card).component("pipeline")
    weights = {name: value.clone() for name, value in pipeline.unet.state_dict().items()}
    base = made(pipeline_engine, card)
    pictures = [
        made(pipeline_engine, card, *stack)
        for stack in ((Adapter(a),), (Adapter(b),), (Adapter(a), Adapter(b)), (Adapter(a, 0.5),))
    ]
    assert len({base, *pictures}) == 5
    assert made(pipeline_engine, card, Adapter(a)) == pictures[0]
    assert made(pipeline_engine, card) == base
    now = pipeline.unet.state_dict()
    assert now.keys() == weights.keys(), "no layer of peft is left in the loaded modules"
    assert all(torch.equal(value, now[name]) for name, value in weights.items())


def test_a_request_with_adapters_equals_a_pipeline_that_is_loaded_with_them(
    pipeline_engine: Engine,
    folder_of: Callable[[str], Path],
    card_of: Callable[[str], ModelCard],
    files: list[Path],
) -> None:
    loaded = Loaded(file=files[0], digest=file_digest(files[0]), scale=0.7, name="style")
    other = replace(card_with(PipelineOptions(adapters=(loaded,))), location=Folder(folder_of("sd")))
    assert made(pipeline_engine, card_of("sd"), Adapter(files[0], 0.7)) == made(pipeline_engine, other)


def test_provenance_tells_of_them(
    pipeline_engine: Engine, card_of: Callable[[str], ModelCard], files: list[Path]
) -> None:
    plain = pipeline_engine.generate(card_of("sd"), asked()).picture.provenance
    found: Any = pipeline_engine.generate(card_of("sd"), asked(Adapter(files[0]))).picture.provenance
    assert found.arguments["adapters"][0]["name"] == files[0].name
    assert found.weights != plain.weights


def test_what_does_not_bind_whole_is_refused(
    pipeline_engine: Engine,
    card_of: Callable[[str], ModelCard],
    folder_of: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    file = lora(tmp_path / "x.safetensors", folder_of("sd"), seed=4, extra="mid_block.nowhere")
    base = made(pipeline_engine, card_of("sd"))
    with pytest.raises(Refused, match=r"LoRA 'x\.safetensors' .*nowhere"):
        made(pipeline_engine, card_of("sd"), Adapter(file))
    assert made(pipeline_engine, card_of("sd")) == base


def test_a_component_is_not_taken(card_of: Callable[[str], ModelCard], files: list[Path]) -> None:
    with pytest.raises(Refused, match="leave component out"):
        resolve(card_of("sd"), asked(Adapter(files[0], component="unet")))


def test_an_offloaded_pipeline_says_where_its_adapters_go() -> None:
    hooked: Any = torch.nn.Linear(1, 1)
    hooked._hf_hook = object()
    offloaded = SimpleNamespace(components={"unet": hooked})
    with pytest.raises(Refused, match="is offloaded, so it takes adapters only when it is loaded"):
        adapted_copy(offloaded, (Adapter("x"),))
