"""Whether clips show what was asked: `python -m restrike.models.shapes.evaluate`; exit status 1 below a bar.

Clips are made through the engine at the card's defaults and read back from pixels by the exact checker,
which is first put to the test on drawn clips. Combinations that no training saw are counted apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.models.shapes.captions import caption
from restrike.models.shapes.card import CARD
from restrike.models.shapes.checker import Reading, read_clips
from restrike.models.shapes.data import draw_clips
from restrike.models.shapes.scene import (
    CLIP_FRAMES,
    COMBINATIONS,
    HELD_OUT,
    TRAINED,
    Combination,
    Scene,
    draw_scenes,
)

if TYPE_CHECKING:
    from restrike.engine.result import Picture

CHECKER_BAR, TRAINED_BAR, HELD_OUT_BAR, WARM_BAR_S = 0.99, 0.95, 0.90, 2.0
ATTRIBUTES = ("colour", "shape", "motion", "background")


@dataclass(frozen=True, kw_only=True)
class Score:
    """Shares of clips that are right, by attribute and in all four."""

    clips: int
    right: dict[str, float]
    missed: tuple[str, ...]

    @property
    def all_four(self) -> float:
        """Clips with every attribute right."""
        return self.right["all"]


def score(prompts: list[str], scenes: list[Scene], readings: list[Reading]) -> Score:
    """Compares what was asked with what was read."""
    hits: dict[str, int] = dict.fromkeys((*ATTRIBUTES, "all"), 0)
    missed: list[str] = []
    for prompt, scene, reading in zip(prompts, scenes, readings, strict=True):
        right = [name for name in ATTRIBUTES if getattr(scene, name) == getattr(reading, name)]
        for name in right:
            hits[name] += 1
        if len(right) == len(ATTRIBUTES):
            hits["all"] += 1
        else:
            read = ", ".join(str(getattr(reading, name) or "unclear") for name in ATTRIBUTES)
            missed.append(f"{prompt} -> {read}")
    shares = {name: count / len(scenes) for name, count in hits.items()}
    return Score(clips=len(scenes), right=shares, missed=tuple(missed))


def scenes_and_prompts(
    combinations: tuple[Combination, ...], count: int, seed: int
) -> tuple[list[Scene], list[str]]:
    """Scenes over the combinations, and captions of which every second one says size and speed."""
    generator = torch.Generator().manual_seed(seed)
    batch = draw_scenes(combinations, count, generator)
    scenes = [batch.scene(index) for index in range(count)]
    says_more = torch.rand(count, generator=generator) < 0.5
    asked = [
        scene if more else replace(scene, size=None, speed=None)
        for scene, more in zip(scenes, says_more.tolist(), strict=True)
    ]
    return scenes, [caption(scene) for scene in asked]


def score_of_drawn(count: int, seed: int) -> Score:
    """The checker on clips drawn exactly, rounded to 8 bits as files are."""
    generator = torch.Generator().manual_seed(seed)
    scenes: list[Scene] = []
    readings: list[Reading] = []
    for _ in range(count // 50):
        batch = draw_scenes(COMBINATIONS, 50, generator)
        clip_BCTHW = draw_clips(batch, torch.arange(CLIP_FRAMES))
        readings += read_clips(((clip_BCTHW + 1) * 127.5).round() / 127.5 - 1)
        scenes += [batch.scene(index) for index in range(50)]
    return score([caption(scene) for scene in scenes], scenes, readings)


def score_of_generated(
    engine: Engine, card: ModelCard, combinations: tuple[Combination, ...], count: int, seed: int
) -> Score:
    """One clip a prompt, made through the engine; clip k has seed `seed` + k."""
    scenes, prompts = scenes_and_prompts(combinations, count, seed)
    readings = [
        read_clips(clip_of(engine.generate(card, Request(prompt=prompt, seed=seed + index)).picture))[0]
        for index, prompt in enumerate(prompts)
    ]
    return score(prompts, scenes, readings)


def clip_of(picture: Picture) -> Tensor:
    """clip_BCTHW in [-1, 1] of a generated picture."""
    frames_THWC = torch.from_numpy(picture.frames_THWC)
    return frames_THWC.permute(3, 0, 1, 2)[None].float() / 127.5 - 1


def warm_seconds(engine: Engine, card: ModelCard, repeats: int = 5) -> float:
    """The median time of one clip at the defaults, weights loaded."""
    times: list[float] = []
    for seed in range(repeats + 1):
        began = time.perf_counter()
        engine.generate(card, Request(prompt="a red circle moving left on a white background", seed=seed))
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def evaluate(card: ModelCard, seed: int, count: int) -> tuple[dict[str, Any], dict[str, Score]]:
    """The report with its bars, and the scores behind it."""
    engine = Engine(device="cpu")
    scores = {
        "drawn": score_of_drawn(200, seed),
        "trained": score_of_generated(engine, card, TRAINED, count, seed),
        "held_out": score_of_generated(engine, card, HELD_OUT, count, seed + count),
    }
    figures = {f"{name}_{part}": share for name, s in scores.items() for part, share in s.right.items()}
    warm_s = round(warm_seconds(engine, card), 3)
    bars = {
        name: {"value": scores[name].all_four, "bar": bar, "ok": scores[name].all_four >= bar}
        for name, bar in (("drawn", CHECKER_BAR), ("trained", TRAINED_BAR), ("held_out", HELD_OUT_BAR))
    }
    bars["warm_s"] = {"value": warm_s, "bar": WARM_BAR_S, "ok": warm_s <= WARM_BAR_S}
    machine = f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} thread(s)"
    figures |= {"prompts_each": count, "warm_s": warm_s}
    return {"machine": machine, "figures": figures, "bars": bars}, scores


def main() -> int:
    """Print the figures; 0 when every bar holds."""
    parser = argparse.ArgumentParser(prog="python -m restrike.models.shapes.evaluate")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument(
        "--count", type=int, default=200, help="prompts of trained and of held-out combinations, each"
    )
    parser.add_argument("--checkpoint", type=Path, help="folder of other weights than the shipped ones")
    parser.add_argument("--sheet", type=Path, help="PNG file that gets a contact sheet of some clips")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    card = CARD if asked.checkpoint is None else replace(CARD, location=Folder(asked.checkpoint))
    report, scores = evaluate(card, asked.seed, asked.count)
    if asked.sheet is not None:
        from restrike.models.shapes.sheet import contact_sheet

        contact_sheet(Engine(device="cpu"), card).save(asked.sheet)
    if asked.json:
        print(json.dumps(report))
    else:
        _print_table(report, scores)
    return 0 if all(bar["ok"] for bar in report["bars"].values()) else 1


def _print_table(report: dict[str, Any], scores: dict[str, Score]) -> None:
    print(f"machine   {report['machine']}")
    print(
        f"{'':10}{'clips':>6}" + "".join(f"{name:>12}" for name in (*ATTRIBUTES, "all four")) + f"{'bar':>8}"
    )
    for name, found in scores.items():
        shares = "".join(f"{found.right[part]:>12.1%}" for part in (*ATTRIBUTES, "all"))
        print(f"{name:10}{found.clips:>6}{shares}{report['bars'][name]['bar']:>8.0%}")
    print(f"warm clip {report['bars']['warm_s']['value']:.2f} s  (bar {WARM_BAR_S:.0f} s)")
    for name, found in scores.items():
        for line in found.missed:
            print(f"missed, {name}: {line}")


if __name__ == "__main__":
    sys.exit(main())
