"""The Python front door: lazy names, loading, generating, streaming, and what is refused."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch

import restrike
from restrike import api
from restrike.cards import registry
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.builtin import StepTimes
from restrike.engine.events import PictureFinished, PreviewReady, Started, StepFinished, Stopped, Succeeded
from restrike.media import provenance_of, write


@pytest.fixture(scope="module")
def model() -> restrike.Model:
    return restrike.load("digits", device="cpu")


def test_every_public_name_can_be_had() -> None:
    for name in restrike.__all__:
        assert getattr(restrike, name) is not None
    assert set(restrike.__all__) <= set(dir(restrike))


def test_what_type_checkers_see_is_what_there_is() -> None:
    tree = ast.parse(inspect.getsource(restrike))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name for node in ast.walk(block) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen | {"__version__"} == set(restrike.__all__)


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lode'"):
        restrike.lode  # noqa: B018


def test_generate_makes_a_picture_that_can_be_saved(model: restrike.Model, tmp_path: Path) -> None:
    made = model.generate("a seven", seed=7)
    assert made.picture.frames_THWC.shape == (1, 8, 8, 3)
    assert made.seed == 7
    path = made.save(tmp_path / "seven.png")
    assert provenance_of(path) == made.picture.provenance


def test_options_are_those_of_a_request() -> None:
    assert set(api.Options.__annotations__) == {part.name for part in fields(Request)} - {"prompt"}


def test_an_unknown_option_is_named(model: restrike.Model) -> None:
    with pytest.raises(restrike.Unknown, match="did you mean 'guidance'"):
        model.generate("a seven", guidence=2)  # pyright: ignore[reportCallIssue]


def test_the_same_seed_gives_the_same_bytes_and_another_does_not(model: restrike.Model) -> None:
    first, again, other = (model.generate("a seven", seed=seed, steps=3) for seed in (1, 1, 2))
    assert (first.picture.frames_THWC == again.picture.frames_THWC).all()
    assert (first.picture.frames_THWC != other.picture.frames_THWC).any()


def test_stream_yields_steps_previews_and_the_generation(model: restrike.Model) -> None:
    events = list(model.stream("a seven", seed=7, steps=4, preview_every=2))
    kinds = [type(event) for event in events]
    pair = [StepFinished, StepFinished, PreviewReady]
    assert kinds == [Started, *pair, *pair, PictureFinished, Succeeded]


def test_a_stream_can_be_cancelled(model: restrike.Model) -> None:
    cancellation = restrike.Cancellation()
    last = None
    for last in model.stream("a seven", steps=100, cancellation=cancellation):
        if isinstance(last, StepFinished) and last.step == 3:
            cancellation.cancel()
    assert isinstance(last, Stopped)


def test_extensions_are_names_or_objects() -> None:
    for extension in ("step-times", StepTimes()):
        made = restrike.load("digits", extensions=(extension,)).generate("a seven", steps=2)
        assert made.notices[0].startswith("step-times: transformer: 2 steps")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"card": "digit"}, "did you mean 'digits'"),
        ({"card": "wan"}, "needs weights"),
        ({"device": "tpu"}, "unknown device"),
        ({"precision": "int4"}, "float32"),
        ({"extensions": ("step-time",)}, "unknown extension"),
    ],
)
def test_what_cannot_be_loaded_is_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(restrike.Refused, match=words):
        restrike.load(**{"card": "digits", **arguments})  # pyright: ignore[reportArgumentType]


def test_precision_is_that_of_the_weights() -> None:
    model = restrike.load("digits", precision="bfloat16")
    assert model.generate("a seven", steps=2).picture.frames_THWC.shape == (1, 8, 8, 3)


def test_torn_weights_are_refused_in_one_line(tmp_path: Path) -> None:
    card = registry.card("digits")
    assert card.location is not None
    whole = card.location.resolve(()).root
    for file in whole.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    torn = tmp_path / "transformer.safetensors"
    torn.write_bytes(torn.read_bytes()[:1000])
    model = restrike.load(replace(card, location=Folder(tmp_path)))
    with pytest.raises(restrike.Refused, match=r"transformer\.safetensors is torn") as caught:
        model.generate("a seven")
    assert "\n" not in str(caught.value)
    torn.unlink()
    with pytest.raises(restrike.NotFound, match="transformer"):
        restrike.load(replace(card, location=Folder(tmp_path))).generate("a seven")


def test_an_image_may_be_a_file(model: restrike.Model, tmp_path: Path) -> None:
    made = model.generate("a seven", seed=7)
    write(tmp_path / "x.png", made.picture.frames_THWC)
    with pytest.raises(restrike.Refused, match="image-to"):
        model.generate("a seven", image=tmp_path / "x.png")
    with pytest.raises(restrike.NotFound, match="gone"):
        model.generate("a seven", image="gone.png")


def test_random_state_of_the_process_is_left_alone(model: restrike.Model) -> None:
    before = torch.random.get_rng_state()
    model.generate("a seven", steps=2, solver="sde")
    assert torch.equal(before, torch.random.get_rng_state())


def test_submit_runs_beside_the_caller(model: restrike.Model) -> None:
    job = model.submit("a seven", seed=7, steps=3, id="mine", preview_every=1)
    made = job.result()
    assert (job.id, made.seed) == ("mine", 7)
    alone = model.generate("a seven", seed=7, steps=3)
    assert made.picture.frames_THWC.tobytes() == alone.picture.frames_THWC.tobytes()


def test_submitted_work_can_be_cancelled_and_closed() -> None:
    model = restrike.load("digits", device="cpu", batch_limit=2)
    job = model.submit("a seven", seed=7, items=tuple(range(500)))
    assert job.cancel()
    with pytest.raises(restrike.Cancelled):
        job.result()
    model.close()
    with pytest.raises(restrike.Refused, match="closed"):
        model.submit("a seven")
    assert model.generate("a seven", seed=7).seed == 7
