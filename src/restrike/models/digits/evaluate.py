"""Whether the digits can be read: `python -m restrike.models.digits.evaluate`; exit status 1 below the bar.

A reader that never saw a generated picture, trained on real digits, reads real digits that it never saw
and pictures that the engine made at the card's defaults.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.result import Picture
from restrike.models.digits.card import CARD
from restrike.models.digits.data import LEVELS, load
from restrike.models.digits.prompts import WORDS
from restrike.models.digits.sheet import sheet

BAR = 0.98


@dataclass(frozen=True)
class Reader:
    """A support vector machine (RBF kernel) over the 64 ink levels."""

    machine: Any

    def read(self, ink_BHW: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The digit of each picture; ink runs from 0 to 1."""
        return self.machine.predict(ink_BHW.reshape(len(ink_BHW), -1) * LEVELS)


def trained_reader() -> tuple[Reader, float]:
    """The reader, and its share of right answers on the held-out real digits."""
    from sklearn.svm import SVC

    split = load()
    seen, kept = split.train, split.held_out
    machine = SVC(gamma=0.001, C=10.0)  # pyright: ignore[reportArgumentType]  (it takes floats)
    machine.fit(seen.ink_BCHW.flatten(1).numpy() * LEVELS, seen.digit_B.numpy())
    reader = Reader(machine)
    right = reader.read(kept.ink_BCHW.numpy()) == kept.digit_B.numpy()
    return reader, float(right.mean())


def ink_of(pictures: tuple[Picture, ...]) -> np.ndarray[Any, Any]:
    """ink_BHW of generated pictures."""
    return np.stack([picture.frames_THWC[0, :, :, 0] for picture in pictures]).astype(np.float64) / 255


def samples(engine: Engine, card: ModelCard, seed: int, each: int) -> dict[int, tuple[Picture, ...]]:
    """`each` pictures of every digit, made through the engine; the seed of digit d is `seed` + d."""
    made: dict[int, tuple[Picture, ...]] = {}
    for digit, word in enumerate(WORDS):
        request = Request(prompt=f"a {word}", seed=seed + digit, items=tuple(range(each)))
        made[digit] = engine.generate(card, request).pictures
    return made


def evaluate(card: ModelCard, seed: int, each: int) -> dict[str, Any]:
    """Figures and bars."""
    reader, held_out = trained_reader()
    engine = Engine(device="cpu")
    engine.generate(card, Request(prompt="a zero", seed=seed))  # loads the weights
    began = time.perf_counter()
    made = samples(engine, card, seed, each)
    sample_ms = (time.perf_counter() - began) * 1000 / (each * len(made))
    right = np.concatenate([reader.read(ink_of(pictures)) == digit for digit, pictures in made.items()])
    figures = {
        "real_held_out": held_out,
        "read_as_asked": float(right.mean()),
        "samples": len(right),
        "sample_ms": round(sample_ms, 2),
    }
    bars = {
        name: {"value": figures[name], "bar": BAR, "ok": figures[name] >= BAR}
        for name in ("real_held_out", "read_as_asked")
    }
    machine = f"{platform.machine()}, torch {torch.__version__}, {torch.get_num_threads()} thread(s)"
    return {"machine": machine, "figures": figures, "bars": bars}


def main() -> int:
    """Print the figures; 0 when both bars hold."""
    parser = argparse.ArgumentParser(prog="python -m restrike.models.digits.evaluate")
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--each", type=int, default=20, help="pictures of each digit")
    parser.add_argument("--checkpoint", type=Path, help="folder of other weights than the shipped ones")
    parser.add_argument("--sheet", type=Path, help="PNG file that gets a labelled sheet of some samples")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    card = CARD if asked.checkpoint is None else replace(CARD, location=Folder(asked.checkpoint))
    result = evaluate(card, asked.seed, asked.each)
    if asked.sheet is not None:
        sheet(samples(Engine(device="cpu"), card, asked.seed, 12), columns=12).save(asked.sheet)
    if asked.json:
        print(json.dumps(result))
    else:
        _print_table(result)
    return 0 if all(bar["ok"] for bar in result["bars"].values()) else 1


def _print_table(result: dict[str, Any]) -> None:
    figures = result["figures"]
    print(f"machine                        {result['machine']}")
    print(f"real digits never seen, read   {figures['real_held_out']:.1%}  (bar {BAR:.0%})")
    print(f"generated, read as asked       {figures['read_as_asked']:.1%}  (bar {BAR:.0%})")
    print(f"generated pictures             {figures['samples']}, {figures['sample_ms']:.1f} ms each")


if __name__ == "__main__":
    sys.exit(main())
