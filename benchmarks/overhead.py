"""What Restrike itself costs: the driven Wan card against diffusers' pipeline, and a cold start to a file.

Both run the same tiny random weights, made here in a temporary folder; nothing is downloaded.

    python benchmarks/overhead.py [--json] [--repeats N] [--card shapes]
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from form import Figure, Report, at_most, finish, options, paired, ratio

os.environ["HF_HUB_OFFLINE"] = "1"
TINY = Path(__file__).parents[1] / "tests/models/wan/tiny.py"
STEPS = 20
PROMPTS = {"shapes": "a red circle moving left", "digits": "a seven"}
PROMPT = PROMPTS["shapes"]
COLD_REPEATS = 7
WAN_BAR = 1.00
COLD_BAR = 2.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to run Wan."""

    name: str
    solver: str
    guidance: float


CASES = (
    Case(name="unipc, guided", solver="unipc", guidance=5.0),
    Case(name="euler, unguided", solver="euler", guidance=1.0),
)


def main() -> int:
    """Measure, print, and say by the exit status whether the bars are met."""
    parser = options("What Restrike costs beside the work itself", repeats=15)
    parser.add_argument(
        "--card", default="shapes", choices=PROMPTS, help="the embedded card of the cold start"
    )
    asked = parser.parse_args()
    figures: list[Figure] = []
    with TemporaryDirectory() as folder:
        for case in CASES:
            figures += wan(case, Path(folder) / case.solver, asked.repeats)
        figures += cold(asked.card, Path(folder) / "cold.mp4", min(asked.repeats, COLD_REPEATS))
    bars = [at_most(figure, WAN_BAR) for figure in figures if figure.name.startswith("wan / pipeline")]
    bars += [at_most(figure, COLD_BAR) for figure in figures if figure.name.startswith("(cold")]
    report = Report(title="Overhead of Restrike", figures=tuple(figures), bars=tuple(bars))
    return finish(report, as_json=asked.json)


def wan(case: Case, folder: Path, repeats: int) -> list[Figure]:
    """From prompt to latent and from prompt to frames, by both."""
    checkpoint(case, folder)
    names = ("latent", "frames")
    runs = [run for name in names for run in (_pipeline(case, folder, name), _driven(case, folder, name))]
    paired(runs, 2)
    times = paired(runs, repeats)
    figures: list[Figure] = []
    for index, name in enumerate(names):
        theirs, ours = times[2 * index], times[2 * index + 1]
        figures += [
            Figure(name=f"pipeline, {case.name}, to {name}", unit="s", values=theirs),
            Figure(name=f"wan, {case.name}, to {name}", unit="s", values=ours),
            ratio(f"wan / pipeline, {case.name}, to {name}", ours, theirs),
        ]
    return figures


def checkpoint(case: Case, folder: Path) -> None:
    """A tiny random Wan with the case's scheduler."""
    spec = importlib.util.spec_from_file_location("tiny_wan", TINY)
    assert spec is not None
    assert spec.loader is not None
    tiny = importlib.util.module_from_spec(spec)
    sys.modules["tiny_wan"] = tiny
    spec.loader.exec_module(tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny.write(folder.with_name(f"{folder.name}-unipc"))
        scheduler = tiny.euler() if case.solver == "euler" else tiny.unipc()
        tiny.with_scheduler(folder.with_name(f"{folder.name}-unipc"), folder, scheduler)


def _pipeline(case: Case, folder: Path, output: str) -> Callable[[], object]:
    import torch
    from diffusers.pipelines.wan.pipeline_wan import WanPipeline
    from diffusers.utils import logging

    logging.disable_progress_bar()
    pipe: Any = WanPipeline.from_pretrained(folder)
    pipe.set_progress_bar_config(disable=True)
    return lambda: pipe(
        prompt=PROMPT,
        height=32,
        width=32,
        num_frames=9,
        num_inference_steps=STEPS,
        guidance_scale=case.guidance,
        generator=torch.Generator().manual_seed(7),
        output_type="latent" if output == "latent" else "np",
    )


def _driven(case: Case, folder: Path, output: str) -> Callable[[], object]:
    from restrike.cards.checkpoint import Folder
    from restrike.cards.request import Request
    from restrike.engine.engine import Engine
    from restrike.engine.events import StepFinished
    from restrike.models.wan.card import CARD

    engine = Engine(device="cpu", precision="float32")
    card = engine.load(replace(CARD, location=Folder(folder))).card
    request = Request(
        prompt=PROMPT, seed=7, width=32, height=32, frames=9, steps=STEPS, guidance=case.guidance
    )

    def to_latent() -> None:
        stream = engine.stream(card, request)
        while not (isinstance(event := next(stream), StepFinished) and event.step == event.total):
            pass

    return to_latent if output == "latent" else lambda: engine.generate(card, request)


def run(*command: str) -> None:
    """Run a process to its end; what it says goes nowhere, unless it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"'{' '.join(command)}' ended with {done.returncode}: {done.stderr.strip()}")


def cold(card: str, file: Path, repeats: int) -> list[Figure]:
    """A new process to a file, the same generation in this one, and a new process that imports torch."""
    import restrike

    model, prompt = restrike.load(card), PROMPTS[card]
    command = [sys.executable, "-m", "restrike", "generate", prompt, "--card", card, "--seed", "7"]

    suffix = ".mp4" if model.card.defaults.frames > 1 else ".png"
    target = file.with_suffix(suffix)
    runs = [
        lambda: run(*command, "-o", str(target)),
        lambda: model.generate(prompt, seed=7).save(target),
        lambda: run(sys.executable, "-c", "import torch"),
    ]
    paired(runs, 1)
    to_file, warm, torch_alone = paired(runs, repeats)
    beyond = [c - w for c, w in zip(to_file, warm, strict=True)]
    return [
        Figure(name=f"generate to a file, {card}, cold", unit="s", values=to_file),
        Figure(name=f"generate to a file, {card}, warm", unit="s", values=warm),
        Figure(name="import torch", unit="s", values=torch_alone),
        ratio("(cold - warm) / import torch", beyond, torch_alone),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
