"""Payloads that are served: slots, seeds, files, notices, cancelling, failures, and requests side by side."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from restrike.cards import registry
from restrike.cards.checkpoint import Folder
from restrike.endpoints.context import Progressed
from restrike.endpoints.declaration import Resources
from restrike.endpoints.finding import Filled, find
from restrike.endpoints.payloads import InvalidPayload
from restrike.endpoints.resources import MissingResource, require
from restrike.endpoints.serving import Answer, Asked, Serving
from restrike.endpoints.slots import UnfilledSlot, fill
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished
from restrike.engine.requests import Cancellation
from restrike.errors import Cancelled, Crashed, NotFound, Refused, Shortfall, Unknown
from restrike.keys import file_digest
from restrike.media import provenance_of, read_picture

from .conftest import DIGIT, Ready


def served(engine: Engine, filled: Filled, payload: object = (), **asked: object) -> Answer:
    with Serving(filled.endpoint, filled.cards, engine) as serving:
        return serving.call(dict(payload), Asked(**asked))  # pyright: ignore[reportArgumentType,reportCallIssue]


def test_a_picture_is_what_the_model_makes(engine: Engine, ready: Ready, tmp_path: Path) -> None:
    answer = served(engine, ready(), {"steps": 4}, seed=7, folder=tmp_path)
    (file,) = answer.files
    assert answer.value["sha256"] == file.sha256 == file_digest(Path(file.path)).hex
    alone = engine.generate("digits", replace(_request(), steps=4))
    assert (read_picture(file.path) == alone.picture.frames_THWC[0]).all()
    assert provenance_of(file.path) == alone.picture.provenance
    assert (answer.seed, answer.notices) == (7, ())


def _request():
    from restrike.cards.request import Request

    return Request(prompt="a seven", seed=7, solver="euler")


def test_same_code_and_two_models_make_two_pictures(engine: Engine, ready: Ready, tmp_path: Path) -> None:
    card = registry.card("digits")
    assert card.location is not None
    whole = card.location.resolve(()).root
    other = tmp_path / "other"
    other.mkdir()
    for file in whole.iterdir():
        if file.is_file():
            (other / file.name).write_bytes(file.read_bytes())
    tensors = load_file(other / "transformer.safetensors")
    save_file({name: value * 0.5 for name, value in tensors.items()}, other / "transformer.safetensors")
    filled = ready()
    elsewhere = fill(filled.endpoint, {"pipeline": replace(card, location=Folder(other))})
    first = served(engine, filled, seed=7, folder=tmp_path)
    second = served(engine, replace(filled, cards=elsewhere), seed=7, folder=other)
    assert first.files[0].sha256 != second.files[0].sha256


def test_an_unfilled_slot_is_named(ready: Ready) -> None:
    endpoint = ready().endpoint
    with pytest.raises(UnfilledSlot, match="slot 'pipeline' of endpoint 'digit' has no model"):
        fill(endpoint, {})
    with pytest.raises(Unknown, match="did you mean 'pipeline'"):
        fill(endpoint, {"pipelin": "digits"})
    with pytest.raises(NotFound, match=r"slot 'pipeline' of endpoint 'digit': unknown card"):
        fill(endpoint, {"pipeline": "digitz"})


def test_a_slot_is_filled_by_its_default_and_by_what_does_its_task(ready: Ready) -> None:
    text = DIGIT.replace("Slot()", 'Slot(tasks=("text-to-video",), default="shapes")')
    endpoint = ready(text, pipeline="shapes").endpoint
    assert fill(endpoint, {})["pipeline"].name == "shapes"
    with pytest.raises(Refused, match="is for text-to-video, which card 'digits' does not do"):
        fill(endpoint, {"pipeline": "digits"})


def test_a_handler_is_not_entered_with_what_does_not_fit(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    @restrike.endpoint()
    def boom(ctx, payload: Ask):
        raise AssertionError("entered")
    """)
    with pytest.raises(InvalidPayload, match=r"payload\.steps"):
        served(engine, filled, {"steps": 0})
    with pytest.raises(Crashed, match="entered"):
        served(engine, filled, {"steps": 1})


@pytest.mark.parametrize(
    ("raised", "kind", "words"),
    [
        ("restrike.Refused('no')", Refused, "^no$"),
        ("restrike.Shortfall('full')", Shortfall, "^full$"),
        ("restrike.Cancelled('stopped')", Cancelled, "^stopped$"),
        ("MemoryError()", Shortfall, "out of memory"),
        ("KeyError('x')", Crashed, r"handler 'fails' of endpoint 'fails' at served.py:\d+: KeyError"),
    ],
)
def test_failures_keep_their_class(
    engine: Engine, ready: Ready, raised: str, kind: type[Exception], words: str
) -> None:
    filled = ready(f"""
    @restrike.endpoint()
    def fails(ctx, payload: Ask):
        raise {raised}
    """)
    with pytest.raises(kind, match=words) as caught:
        served(engine, filled)
    assert type(caught.value) is kind


def test_what_json_cannot_hold_is_a_crash_that_names_the_handler(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    @restrike.endpoint()
    def odd(ctx, payload: Ask):
        return object()
    """)
    with pytest.raises(Crashed, match=r"handler 'odd'.*JSON cannot hold"):
        served(engine, filled)


def test_it_stops_within_one_step(engine: Engine, ready: Ready, tmp_path: Path) -> None:
    cancellation, steps = Cancellation(), list[StepFinished]()

    def watch(event: object) -> None:
        if isinstance(event, StepFinished):
            steps.append(event)
            if event.step == 2:
                cancellation.cancel()

    filled = ready()
    # The engine's own thread steps; with the turn held by it, it is at most one step ahead of the watcher.
    with pytest.raises(Cancelled):
        served(engine, filled, {"steps": 20}, cancellation=cancellation, watch=watch, folder=tmp_path)
    assert len(steps) < 20
    assert not list(tmp_path.glob("*.png"))
    assert engine.metrics().running == 0


def test_requests_side_by_side_equal_one_after_the_other(
    engine: Engine, ready: Ready, tmp_path: Path
) -> None:
    filled = ready()
    asked = [{"solver": solver, "steps": 6} for solver in ("euler", "unipc", "sde", "euler")]
    folders = [tmp_path / str(index) for index in range(len(asked))]
    together, errors = dict[int, str](), list[BaseException]()
    with Serving(filled.endpoint, filled.cards, engine) as serving:

        def call(index: int) -> str:
            folders[index].mkdir(exist_ok=True)
            return serving.call(asked[index], Asked(seed=index, folder=folders[index])).files[0].sha256

        def run(index: int) -> None:
            try:
                together[index] = call(index)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors
        assert [together[index] for index in range(len(asked))] == [
            call(index) for index in range(len(asked))
        ]
    assert len(set(together.values())) == len(asked)


def test_a_view_holds_nothing_that_is_shared_and_cannot_be_changed(ready: Ready, engine: Engine) -> None:
    filled = ready("""
    @restrike.endpoint(slots={"pipeline": restrike.Slot()})
    def changes(ctx, payload: Ask):
        model = ctx.slots["pipeline"]
        model.using(solver="sde")
        assert model.options == {}
        for change in (lambda: setattr(model, "options", {}), lambda: ctx.slots.update({})):
            try:
                change()
            except (AttributeError, TypeError):
                continue
            raise AssertionError("changed")
        return model.card.name
    """)
    assert served(engine, filled).value == "digits"


def test_setup_once_state_kept_and_shut_down(engine: Engine, ready: Ready, tmp_path: Path) -> None:
    filled = ready("""
    @restrike.endpoint(slots={"pipeline": restrike.Slot()})
    class Counter:
        events = []
        def setup(self, ctx):
            self.count = 0
            self.events.append(f"setup {ctx.slots['pipeline'].card.name}")
        def shutdown(self):
            self.events.append("shutdown")
        def up(self, ctx, payload: Ask) -> int:
            self.count += 1
            return self.count
        def told(self, ctx, payload: Ask) -> list[str]:
            return self.events
    """)
    with Serving(filled.endpoint, filled.cards, engine) as serving:
        with pytest.raises(Refused, match="several handlers; name one of told, up"):
            serving.call({})
        assert [serving.call({}, Asked(handler="up")).value for _ in range(2)] == [1, 2]
        events = serving.call({}, Asked(handler="told")).value
    assert events == ["setup digits"]
    target: type = filled.endpoint.target  # pyright: ignore[reportAssignmentType]
    assert target.events == ["setup digits", "shutdown"]  # pyright: ignore[reportAttributeAccessIssue]


def test_a_model_that_was_kept_from_setup_is_refused(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    @restrike.endpoint(slots={"pipeline": restrike.Slot()})
    class Keeps:
        def setup(self, ctx):
            self.model = ctx.slots["pipeline"]
            self.warm = self.model.generate("a one", steps=1).seed
        def use(self, ctx, payload: Ask) -> int:
            assert self.warm == 0
            return self.model.generate("a seven").seed
    """)
    with pytest.raises(Refused, match=r"was kept; take it from ctx\.slots"):
        served(engine, filled)


def test_progress_never_falls_and_notices_are_part_of_the_answer(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    @restrike.endpoint()
    def clamps(ctx, payload: Ask):
        for fraction in (0.2, 0.1, 7):
            ctx.progress(fraction, "on")
        return [ctx.clamp("width", 130, 16, 128), ctx.clamp("steps", 3, 1, 5)]
    """)
    seen: list[object] = []
    answer = served(engine, filled, watch=seen.append)
    assert [event.fraction for event in seen if isinstance(event, Progressed)] == [0.2, 0.2, 1.0]
    assert answer.value == [128, 3]
    assert answer.notices == ("width 130 is not within 16 to 128; 128 was used",)


def test_progress_that_is_no_number_is_refused(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    @restrike.endpoint()
    def lost(ctx, payload: Ask):
        ctx.progress(float("nan"))
    """)
    with pytest.raises(Refused, match="progress is no number"):
        served(engine, filled)


def test_numbers_are_drawn_from_the_seed(engine: Engine, ready: Ready) -> None:
    filled = ready("""
    import torch
    @restrike.endpoint()
    def draws(ctx, payload: Ask):
        return [ctx.seed, float(torch.rand((), generator=ctx.generator))]
    """)
    first, again, other = (served(engine, filled, seed=seed).value for seed in (1, 1, 2))
    assert first == again != other
    assert served(engine, filled).value[0] != served(engine, filled).value[0]
    with pytest.raises(Refused, match="seed -1"):
        served(engine, filled, seed=-1)


def test_pixels_of_a_handlers_own_say_where_they_come_from(
    engine: Engine, ready: Ready, tmp_path: Path
) -> None:
    filled = ready("""
    @restrike.endpoint(slots={"pipeline": restrike.Slot()})
    def darker(ctx, payload: Ask):
        picture = ctx.slots["pipeline"].generate(payload.prompt, steps=2).picture
        ctx.save_video(picture.frames_THWC.repeat(3, 0), "clip.gif", fps=10)
        return ctx.save_image(picture.frames_THWC[0] // 2, "dark.png")
    """)
    answer = served(engine, filled, seed=3, folder=tmp_path)
    made = provenance_of(tmp_path / "dark.png")
    assert made is not None
    assert (made.card, made.seed) == ("endpoint darker", 3)
    assert made.weights
    assert made.arguments["payload"] == {"prompt": "a seven", "steps": 3, "solver": "euler"}
    assert [file.frames for file in answer.files] == [3, 1]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("ctx.save_image(PIXELS, '../x.png')", "not the name of a file"),
        ("[ctx.save_image(PIXELS) for _ in range(2)]", "saved twice"),
        ("ctx.save_image(PIXELS.repeat(2, 0)[None].repeat(2, 0), 'x.png')", "2 frames; use save_video"),
        ("ctx.save_video(PIXELS[None], 'x.mp4')", "frames need fps"),
        ("ctx.save_image(PIXELS, 'x.bmp')", "bmp"),
    ],
)
def test_what_cannot_be_saved_is_refused(
    engine: Engine, ready: Ready, tmp_path: Path, call: str, words: str
) -> None:
    filled = ready(f"""
    import numpy as np
    PIXELS = np.zeros((4, 4, 3), np.uint8)
    @restrike.endpoint()
    def saves(ctx, payload: Ask):
        {call}
    """)
    with pytest.raises(Refused, match=words):
        served(engine, filled, folder=tmp_path)


def test_without_a_folder_nothing_is_saved(engine: Engine, ready: Ready) -> None:
    with pytest.raises(Refused, match="no folder for files was given"):
        served(engine, ready())


@pytest.mark.parametrize(
    ("resources", "name"),
    [
        (Resources(gpus=100), "gpus"),
        (Resources(cpus=100_000), "cpus"),
        (Resources(memory_bytes=1 << 60), "memory"),
    ],
)
def test_a_machine_that_lacks_something_is_refused(ready: Ready, resources: Resources, name: str) -> None:
    filled = ready()
    with pytest.raises(MissingResource, match="endpoint 'digit' needs") as caught:
        require(replace(filled.endpoint, resources=resources))
    assert caught.value.resource == name
    require(filled.endpoint)


def test_a_card_is_an_endpoint(engine: Engine, tmp_path: Path) -> None:
    filled = find("digits", {})
    answer = served(engine, filled, {"prompt": "a seven", "steps": 3}, seed=7, folder=tmp_path)
    assert answer.value[0]["name"] == "digits-0.png"
    alone = engine.generate("digits", replace(_request(), solver=None, steps=3))
    assert (read_picture(tmp_path / "digits-0.png") == alone.picture.frames_THWC[0]).all()
    with pytest.raises(InvalidPayload, match=r"payload\.width.*equal to 8"):
        served(engine, filled, {"prompt": "a seven", "width": 9})
    with pytest.raises(InvalidPayload, match=r"payload\.guidance_mode"):
        served(engine, filled, {"prompt": "a seven", "guidance_mode": "strong"})
    with pytest.raises(Refused, match="leave the slots out"):
        find("digits", {"pipeline": "shapes"})


def test_pixels_come_as_a_file(engine: Engine, ready: Ready, tmp_path: Path) -> None:
    filled = ready("""
    class Given(BaseModel):
        image: restrike.Pixels
    @restrike.endpoint()
    def size(ctx, payload: Given):
        return list(payload.image.shape)
    """)
    from restrike.media import write

    write(tmp_path / "x.png", np.zeros((1, 4, 6, 3), np.uint8))
    assert served(engine, filled, {"image": str(tmp_path / "x.png")}).value == [4, 6, 3]
