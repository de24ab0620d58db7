"""The shipped weights, broken ones, and training them anew."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from restrike.cards.card import ModelCard
from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import NotFound, Refused
from restrike.loops.solvers.registry import solver
from restrike.models.digits import train
from restrike.models.digits.card import CARD
from restrike.models.digits.data import load
from restrike.models.digits.evaluate import evaluate
from restrike.models.digits.transformer import TransformerConfig

SHIPPED = Path(train.__file__).parent / "weights"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED, tmp_path / "copy"))


def card_of(folder: Path) -> ModelCard:
    return replace(CARD, location=Folder(folder))


def generate(folder: Path) -> bytes:
    request = Request(prompt="a two", seed=4)
    return Engine(device="cpu").generate(card_of(folder), request).picture.frames_THWC.tobytes()


def test_a_copied_checkpoint_draws_the_same(checkpoint: Path, engine: Engine) -> None:
    shipped = engine.generate("digits", Request(prompt="a two", seed=4)).picture.frames_THWC
    assert generate(checkpoint) == shipped.tobytes()


def test_loading_leaves_the_global_random_state_alone(checkpoint: Path) -> None:
    before = torch.random.get_rng_state()
    generate(checkpoint)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_torn_file_is_refused(checkpoint: Path) -> None:
    torn = checkpoint / "transformer.safetensors"
    torn.write_bytes(torn.read_bytes()[:5000])
    with pytest.raises(Refused, match=r"checkpoint 'copy': transformer\.safetensors is torn"):
        generate(checkpoint)


def test_weights_of_another_shape_are_refused(checkpoint: Path) -> None:
    weights = load_file(checkpoint / "transformer.safetensors")
    save_file(weights | {"patch_in.bias": torch.zeros(7)}, checkpoint / "transformer.safetensors")
    with pytest.raises(Refused, match=r"transformer\.safetensors does not fit: .*patch_in\.bias"):
        generate(checkpoint)


def test_a_missing_file_is_named(checkpoint: Path) -> None:
    (checkpoint / "config.json").unlink()
    with pytest.raises(NotFound, match=r"checkpoint 'copy' has no config\.json"):
        generate(checkpoint)


def test_a_foreign_configuration_is_refused(checkpoint: Path) -> None:
    (checkpoint / "config.json").write_text(json.dumps({"hidden_size": 96}))
    with pytest.raises(Refused, match=r"config\.json is not that of digits"):
        generate(checkpoint)


def test_the_card_offers_the_solvers_that_exist() -> None:
    assert [solver(name).name for name in CARD.loops[0].solvers] == ["euler", "sde", "unipc"]


def test_the_shipped_weights_pass_their_own_evaluation() -> None:
    result = evaluate(CARD, seed=1000, each=5)
    assert all(bar["ok"] for bar in result["bars"].values()), result


def test_training_is_reproducible_and_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digits = load().train
    decoder = train.fitted_decoder(digits.ink_BCHW)
    latent_BCHW = decoder.encode(digits.ink_BCHW)
    assert latent_BCHW.mean().abs() < 1e-5
    assert latent_BCHW.std() == pytest.approx(1, abs=1e-3)
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        with torch.random.fork_rng():
            torch.manual_seed(5)
            config = TransformerConfig(width=32, depth=1)
            denoiser = train.Denoiser(config)
        run = train.Run(seed=5, steps=100, batch=16, warmup_steps=5)
        train.save(folder, config, train.trained(run, denoiser, latent_BCHW, digits.digit_B), decoder)
    lines = capsys.readouterr().out.splitlines()
    first, last = (float(line.split()[3]) for line in lines[:2])
    assert last < first
    assert lines[0].endswith("s left")
    names = sorted(path.name for path in folders[0].iterdir())
    assert names == sorted(path.name for path in SHIPPED.iterdir())
    for name in names:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert generate(folders[0])
