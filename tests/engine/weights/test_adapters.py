"""A request's adapters: fused in place, undone to the byte, composed in order, bound whole or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from engine.driving import bytes_of
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import StepFinished
from restrike.errors import Refused, Shortfall

from .loras import DIGITS, addresses, lora, state, written

SEED = 7


def asked(*adapters: Adapter | Path) -> Request:
    return Request(
        prompt="a 3",
        seed=SEED,
        steps=4,
        adapters=tuple(each if isinstance(each, Adapter) else Adapter(each) for each in adapters),
    )


def made(engine: Engine, *adapters: Adapter | Path) -> str:
    return bytes_of(engine, asked(*adapters))[0]


def test_a_b_a_gives_the_bytes_of_a_again(own: Engine, transformer: nn.Module, a: Path, b: Path) -> None:
    base, pristine, where = made(own), state(transformer), addresses(transformer)
    first = made(own, a)
    fused = state(transformer)
    other = made(own, b)
    both, turned = made(own, a, b), made(own, b, Adapter(a, 0.5))
    again = made(own, a)
    assert again == first
    assert state(transformer) == fused
    assert len({base, first, other, both, turned}) == 5
    assert made(own) == base
    assert state(transformer) == pristine
    assert addresses(transformer) == where


def test_half_precision_comes_back_to_the_byte_too(tmp_path: Path) -> None:
    engine = Engine(device="cpu", precision="bfloat16")
    module: nn.Module = engine.load("digits").component("transformer")
    pristine, base = state(module), made(engine)
    a, b = (written(tmp_path / f"{seed}.safetensors", lora(module.float(), seed=seed)) for seed in (1, 2))
    module.to(torch.bfloat16)
    first, other, again = made(engine, a), made(engine, b), made(engine, a)
    assert first == again
    assert len({base, first, other}) == 3
    assert made(engine) == base
    assert state(module) == pristine


def test_undoing_by_subtraction_would_be_seen(transformer: nn.Module) -> None:
    pristine = state(transformer)
    weight: Tensor = transformer.get_parameter("blocks.0.qkv.weight")
    change = 0.1 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        weight.add_(change).sub_(change)
    assert state(transformer) != pristine


def test_a_fuse_is_the_update_in_float32_rounded_once(own: Engine, transformer: nn.Module, a: Path) -> None:
    name = "blocks.0.qkv"
    before = transformer.get_parameter(f"{name}.weight").clone()
    tensors = lora(transformer, seed=1)
    up, down = tensors[f"transformer.{name}.lora_B.weight"], tensors[f"transformer.{name}.lora_A.weight"]
    made(own, Adapter(a, 0.7))
    torch.testing.assert_close(
        transformer.get_parameter(f"{name}.weight"), before + 0.7 * (up @ down), rtol=0, atol=1e-6
    )


def test_strength_0_equals_the_base_and_strength_scales(own: Engine, a: Path) -> None:
    base = made(own)
    assert made(own, Adapter(a, 0.0)) == base
    assert len({made(own, Adapter(a, strength)) for strength in (1.0, 0.5, -1.0)} | {base}) == 4


def test_strength_0_is_still_held_against_the_card(
    own: Engine, transformer: nn.Module, tmp_path: Path
) -> None:
    tensors = lora(transformer) | {"transformer.nowhere.lora_A.weight": torch.ones(2, 96)}
    with pytest.raises(Refused, match="nowhere"):
        made(own, Adapter(written(tmp_path / "x.safetensors", tensors), 0.0))


@pytest.mark.parametrize(
    ("alpha", "metadata", "scale"),
    [
        (None, None, 1.0),
        (6.0, None, 3.0),
        (None, {"transformer.lora_alpha": 8, "transformer.r": 2}, 4.0),
        (None, {"lora_alpha": 8, "r": 2}, 4.0),
        (None, {"transformer.lora_alpha": 8, "transformer.use_rslora": True}, 8 / 2**0.5),
        (None, {"transformer.lora_alpha": 2, "transformer.alpha_pattern": {"qkv": 10, "narrow": 4}}, None),
    ],
)
def test_alpha_scales_as_the_file_says(
    own: Engine,
    transformer: nn.Module,
    tmp_path: Path,
    alpha: float | None,
    metadata: dict[str, object] | None,
    scale: float | None,
) -> None:
    tensors = lora(transformer, seed=3, alpha=alpha)
    before = {name: transformer.get_parameter(f"{name}.weight").clone() for name in DIGITS}
    made(own, written(tmp_path / "x.safetensors", tensors, metadata))
    scales = (
        dict(zip(DIGITS, (5.0, 2.0, 1.0), strict=True)) if scale is None else dict.fromkeys(DIGITS, scale)
    )
    for name, factor in scales.items():
        up, down = (tensors[f"transformer.{name}.lora_{part}.weight"] for part in "BA")
        torch.testing.assert_close(
            transformer.get_parameter(f"{name}.weight"),
            before[name] + factor * (up @ down),
            rtol=0,
            atol=2e-6,
        )


@pytest.mark.parametrize(
    "spelling", ["lora_down/lora_up", "lora.down/lora.up", "lora_A.default/lora_B.default"]
)
@pytest.mark.parametrize("prefix", ["transformer.", ""])
def test_other_spellings_are_the_same_lora(
    own: Engine, transformer: nn.Module, a: Path, tmp_path: Path, spelling: str, prefix: str
) -> None:
    down, up = spelling.split("/")
    renamed = {
        name.replace("lora_A", down).replace("lora_B", up): value
        for name, value in lora(transformer, seed=1, prefix=prefix).items()
    }
    assert made(own, written(tmp_path / "x.safetensors", renamed)) == made(own, a)


def test_a_bias_is_added_and_taken_away(own: Engine, transformer: nn.Module, tmp_path: Path) -> None:
    pristine = state(transformer)
    made(own, written(tmp_path / "x.safetensors", lora(transformer, bias=True)))
    changed = {name for name, value in state(transformer).items() if value != pristine[name]}
    assert changed == {f"{name}.{part}" for name in DIGITS for part in ("weight", "bias")}
    made(own)
    assert state(transformer) == pristine


def test_convolutions_are_fused_as_peft_does(tmp_path: Path) -> None:
    from restrike.engine.weights.binding import bind
    from restrike.engine.weights.lora import updates_of
    from restrike.engine.weights.overlay import Overlay
    from restrike.models.digits.card import CARD

    module = nn.ModuleDict(
        {"one": nn.Conv1d(3, 5, 3), "two": nn.Conv2d(3, 5, 3), "three": nn.Conv3d(3, 5, (1, 3, 3))}
    ).requires_grad_(False)
    tensors = lora(module, tuple(module), prefix="part.")
    adapter = Adapter(written(tmp_path / "x.safetensors", tensors)).settled()
    overlay = Overlay(lambda name: module)
    before = {name: module.get_parameter(f"{name}.weight").clone() for name in module}
    overlay.become(bind(adapter, updates_of(adapter, CARD), ("part",), lambda name: module))
    for name, value in before.items():
        up, down = (tensors[f"part.{name}.lora_{part}.weight"] for part in "BA")
        expected = torch.einsum("or...,ri...->oi...", up.squeeze(), down)
        torch.testing.assert_close(module.get_parameter(f"{name}.weight"), value + expected)
    overlay.become(())
    assert all(torch.equal(module.get_parameter(f"{name}.weight"), value) for name, value in before.items())


BROKEN = {
    "binds nothing": (
        {"vae.up.lora_A.weight": (2, 4), "vae.up.lora_B.weight": (4, 2)},
        "binds 0 of its 2 tensors",
    ),
    "binds partly": ({"transformer.blocks.9.qkv.lora_A.weight": (2, 96)}, "blocks.9.qkv"),
    "other shape": ({"transformer.out.lora_A.weight": (2, 96)}, "binds 6 of its 8"),
    "half of one": ({"transformer.modulation.lora_A.weight": (2, 96)}, "half of one"),
    "a stranger": ({"transformer.modulation.dora": (2, 96)}, "transformer.modulation.dora"),
    "another kind": ({"transformer.modulation.lokr_w1": (2, 2)}, "lokr_w1"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_what_does_not_bind_whole_is_refused_with_its_names(
    own: Engine, transformer: nn.Module, a: Path, tmp_path: Path, fault: str
) -> None:
    shapes, words = BROKEN[fault]
    tensors = {} if fault == "binds nothing" else lora(transformer)
    tensors |= {name: torch.ones(shape) for name, shape in shapes.items()}
    if fault in ("binds partly", "other shape"):
        tensors |= {name.replace("lora_A", "lora_B"): torch.ones(4, 2) for name in shapes}
    made(own, a)
    fused = state(transformer)
    with pytest.raises(Refused, match=words):
        made(own, written(tmp_path / "x.safetensors", tensors))
    assert state(transformer) == fused, "a refused one changes nothing"
    assert made(own, a) == made(own, a)


def test_a_list_of_names_is_bounded(own: Engine, transformer: nn.Module, tmp_path: Path) -> None:
    tensors = lora(transformer) | {f"transformer.x{k}.dora": torch.ones(1) for k in range(500)}
    with pytest.raises(Refused, match=r"and 494 more \(of 500\)") as refused:
        made(own, written(tmp_path / "x.safetensors", tensors))
    assert len(refused.value.message) < 500


def test_a_tensor_that_is_not_finite_is_refused(own: Engine, transformer: nn.Module, tmp_path: Path) -> None:
    tensors = lora(transformer)
    tensors["transformer.patch_out.lora_A.weight"][0, 0] = float("nan")
    with pytest.raises(Refused, match=r"NaN or infinity in 'transformer\.patch_out"):
        made(own, written(tmp_path / "x.safetensors", tensors))


def test_what_peft_saved_alone_has_its_scale_elsewhere(
    own: Engine, transformer: nn.Module, tmp_path: Path
) -> None:
    tensors = lora(transformer, prefix="base_model.model.")
    with pytest.raises(Refused, match="keeps its scale in another file"):
        made(own, written(tmp_path / "x.safetensors", tensors))
    with_scale = written(tmp_path / "y.safetensors", tensors, {"lora_alpha": 2, "r": 2})
    assert made(own, with_scale) == made(own, written(tmp_path / "z.safetensors", lora(transformer)))


def test_all_faults_of_adapters_come_at_once(own: Engine, a: Path, tmp_path: Path) -> None:
    pickled = tmp_path / "x.bin"
    pickled.write_bytes(b"no")
    with pytest.raises(Refused) as refused:
        own.generate(
            "digits",
            Request(
                prompt="a 3",
                steps=0,
                adapters=(
                    Adapter(tmp_path / "gone.safetensors"),
                    Adapter(pickled),
                    Adapter(a, 1e9),
                    Adapter(a, component="unet"),
                ),
            ),
        )
    for words in ("steps 0", "gone.safetensors", "is no .safetensors file", "strength 1000000000", "'unet'"):
        assert words in refused.value.message


def test_a_file_that_was_changed_between_is_refused(own: Engine, transformer: nn.Module, a: Path) -> None:
    settled = Adapter(a).settled()
    written(a, lora(transformer, seed=9))
    with pytest.raises(Refused, match="was changed while it was used"):
        made(own, settled)


def test_provenance_names_adapters_by_name_and_digest_never_by_path(own: Engine, a: Path) -> None:
    plain = own.generate("digits", asked()).picture.provenance
    provenance = own.generate("digits", asked(Adapter(a, 0.5))).picture.provenance
    recorded = {"name": "a.safetensors", "digest": Adapter(a).settled().digest, "strength": 0.5}
    assert provenance.arguments["adapters"] == [recorded]
    assert str(a.parent) not in provenance.to_json()
    assert "adapters" not in plain.arguments
    assert plain.weights != provenance.weights
    moved = a.rename(a.with_name("renamed.safetensors"))
    again = own.generate("digits", asked(Adapter(moved, 0.5))).picture.provenance
    assert again.weights == provenance.weights


def test_requests_with_two_stacks_run_one_after_the_other(own: Engine, a: Path, b: Path) -> None:
    alone = [made(own, *stack) for stack in ((a,), (b,), (a,), ())]
    asks = [("digits", asked(*stack)) for stack in ((a,), (b,), (a,), ())]
    from restrike.engine.gate import contents

    outcomes = own.generate_interleaved(asks)
    assert [str(contents(outcome.result())[0]) for outcome in outcomes] == alone


def test_another_stack_on_the_thread_that_holds_one_says_what_to_do(own: Engine, a: Path) -> None:
    events = own.stream("digits", asked())
    next(event for event in events if isinstance(event, StepFinished))
    with pytest.raises(Shortfall, match=r"the requests with no adapter on card 'digits'.*finish or close"):
        made(own, a)
    events.close()
    assert made(own, a)
