"""Syncs: all or nothing, in place, drained; what was in flight ends as it began, what comes later is new."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from engine.driving import bytes_of
from restrike.cards.adapters import Adapter
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.engine.events import PictureFinished, StepFinished, Succeeded
from restrike.engine.gate import contents
from restrike.engine.weights import held
from restrike.engine.weights import sync as syncing
from restrike.engine.weights.incoming import Given
from restrike.errors import NotFound, Refused, Unknown

from .loras import addresses, state

ASKED = Request(prompt="a 3", seed=7, steps=4)


def trained(module: nn.Module, seed: int = 0) -> dict[str, Tensor]:
    """The weights after an imagined training step."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value + 0.05 * torch.randn(value.shape, generator=generator)
        for name, value in module.state_dict().items()
    }


def made(engine: Engine, request: Request = ASKED) -> str:
    return bytes_of(engine, request)[0]


def test_a_sync_writes_in_place_and_later_requests_see_it(own: Engine, transformer: nn.Module) -> None:
    base, before, where = made(own), own.version_of("digits", "transformer"), addresses(transformer)
    new = trained(transformer)
    now = own.sync("digits", "transformer", new, 1)
    assert (before.version, now.version) == (0, 1)
    assert now.base != before.base
    assert own.version_of("digits", "transformer") == now
    assert all(torch.equal(value, new[name]) for name, value in transformer.state_dict().items())
    assert addresses(transformer) == where
    assert made(own) != base


def test_only_the_component_that_is_synced_gets_a_version(own: Engine, transformer: nn.Module) -> None:
    others = {name: own.version_of("digits", name) for name in ("text_encoder", "decoder")}
    own.sync("digits", "transformer", trained(transformer), 5)
    assert {name: own.version_of("digits", name) for name in others} == others
    assert own.version_of("digits", "transformer").version == 5


def test_outputs_carry_the_version(own: Engine, transformer: nn.Module) -> None:
    plain = own.generate("digits", ASKED).picture.provenance
    own.sync("digits", "transformer", trained(transformer), 3)
    synced = own.generate("digits", ASKED).picture.provenance
    assert plain.weight_versions == {}
    assert synced.weight_versions == {"transformer": 3}
    assert plain.weights != synced.weights
    assert '"weight_versions":{"transformer":3}' in synced.to_json()
    assert "weight_versions" not in plain.to_json()


def test_the_identity_is_that_of_the_content(own: Engine, transformer: nn.Module) -> None:
    new = trained(transformer)
    first = own.sync("digits", "transformer", new, 1)
    other = Engine(device="cpu")
    assert other.sync("digits", "transformer", new, 1) == first
    new["blocks.1.qkv.weight"][3, 5] += 1e-3
    third = Engine(device="cpu")
    assert third.sync("digits", "transformer", new, 1) != first


def one_removed(new: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in new.items() if name != "patch_out.bias"}


def with_value(
    name: str, change: Callable[[Tensor], Tensor]
) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    return lambda new: new | {name: change(new[name])}


BAD: dict[str, tuple[Callable[[dict[str, Tensor]], Mapping[str, Any]], str]] = {
    "missing": (one_removed, "'patch_out.bias' is missing"),
    "nothing": (lambda new: {}, "are missing"),
    "strange name": (lambda new: new | {"patch_out.scale": torch.ones(1)}, "it has no 'patch_out.scale'"),
    "shape": (
        with_value("patch_out.bias", lambda value: value[:2]),
        r"shape of 'patch_out.bias'.*\(2,\), not \(4,\)",
    ),
    "transposed": (with_value("modulation.weight", lambda value: value.T), "shape of 'modulation.weight'"),
    "dtype": (with_value("patch_out.bias", lambda value: value.double()), "float64, not float32; cast it"),
    "half": (with_value("patch_out.bias", lambda value: value.half()), "float16, not float32"),
    "whole numbers": (with_value("patch_out.bias", lambda value: value.long()), "int64, not float32"),
    "NaN": (
        with_value("patch_out.bias", lambda value: value * float("nan")),
        "NaN or infinity in 'patch_out.bias'",
    ),
    "infinity": (with_value("patch_out.bias", lambda value: value / 0), "NaN or infinity"),
    "no tensor": (lambda new: dict(new) | {"patch_out.bias": [0.0]}, "is a list, not a tensor"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_sync_is_refused_whole_and_the_old_version_keeps_serving(
    own: Engine, transformer: nn.Module, fault: str
) -> None:
    own.sync("digits", "transformer", trained(transformer), 1)
    served, before = made(own), state(transformer)
    change, words = BAD[fault]
    with pytest.raises(Refused, match=words):
        own.sync("digits", "transformer", change(trained(transformer, seed=1)), 2)
    assert state(transformer) == before
    assert made(own) == served
    assert own.version_of("digits", "transformer").version == 1


def test_all_faults_of_names_and_forms_come_at_once(own: Engine, transformer: nn.Module) -> None:
    new = one_removed(trained(transformer)) | {"x": torch.ones(1)}
    new["modulation.bias"] = new["modulation.bias"].double()
    with pytest.raises(Refused) as refused:
        own.sync("digits", "transformer", new, 1)
    assert all(word in refused.value.message for word in ("'x'", "'patch_out.bias'", "'modulation.bias'"))


@pytest.mark.parametrize("version", [0, -1, True, 1.5, "2"])
def test_a_version_is_a_whole_number_from_1(own: Engine, transformer: nn.Module, version: Any) -> None:
    with pytest.raises(Refused, match="whole number from 1"):
        own.sync("digits", "transformer", trained(transformer), version)


def test_a_version_names_one_content(own: Engine, transformer: nn.Module) -> None:
    new = trained(transformer)
    first = own.sync("digits", "transformer", new, 1)
    assert own.sync("digits", "transformer", new, 1) == first, "a repeated one changes nothing"
    with pytest.raises(Refused, match="serves version 1 already"):
        own.sync("digits", "transformer", trained(transformer, seed=4), 1)


def test_unknown_components_and_those_without_weights(own: Engine) -> None:
    with pytest.raises(Unknown, match="transformer"):
        own.sync("digits", "transfomer", {}, 1)
    with pytest.raises(Unknown, match="text_encoder"):
        own.version_of("digits", "text_encode")


@pytest.mark.parametrize("at", [1, 20, 49])
def test_a_failure_in_the_middle_leaves_the_old_bytes_and_version(
    own: Engine, transformer: nn.Module, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    own.sync("digits", "transformer", trained(transformer), 1)
    served, before, where = made(own), state(transformer), addresses(transformer)
    writes = iter(range(1, 10_000))

    def failing(held: Tensor, value: Tensor) -> None:
        if next(writes) == at:
            held.detach()[..., :1] = value.detach()[..., :1]  # half of it is written
            raise RuntimeError("the device is gone")
        held.detach().copy_(value)

    with monkeypatch.context() as patch:
        patch.setattr(syncing, "write", failing)
        with pytest.raises(RuntimeError, match="the device is gone"):
            own.sync("digits", "transformer", trained(transformer, seed=1), 2)
    assert next(writes) > at
    assert state(transformer) == before
    assert addresses(transformer) == where
    assert made(own) == served
    assert own.version_of("digits", "transformer").version == 1
    own.sync("digits", "transformer", trained(transformer, seed=1), 2)
    assert made(own) != served


def test_a_tensor_that_cannot_be_written_to_is_replaced(own: Engine, transformer: nn.Module) -> None:
    with torch.inference_mode():
        fixed = transformer.get_parameter("patch_out.bias").clone()
    layer: Any = transformer.get_submodule("patch_out")
    layer.bias = nn.Parameter(fixed, requires_grad=False)
    where, new = addresses(transformer), trained(transformer)
    own.sync("digits", "transformer", new, 1)
    moved = {name for name, address in addresses(transformer).items() if address != where[name]}
    assert moved == {"patch_out.bias"}
    assert all(torch.equal(value, new[name]) for name, value in transformer.state_dict().items())


# Files.


def test_a_file_and_its_shards_are_the_same_sync(own: Engine, transformer: nn.Module, tmp_path: Path) -> None:
    new = trained(transformer)
    direct = own.sync("digits", "transformer", new, 1)
    save_file(new, tmp_path / "whole.safetensors")
    assert Engine(device="cpu").sync("digits", "transformer", tmp_path / "whole.safetensors", 1) == direct
    index = sharded(tmp_path / "parts", new)
    assert Engine(device="cpu").sync("digits", "transformer", index, 1) == direct
    assert Engine(device="cpu").sync("digits", "transformer", str(index.parent), 1) == direct


def sharded(folder: Path, tensors: Mapping[str, Tensor]) -> Path:
    """The tensors in three files with an index."""
    folder.mkdir()
    mapping = {name: f"part-{number % 3}.safetensors" for number, name in enumerate(tensors)}
    for file in set(mapping.values()):
        save_file({name: value for name, value in tensors.items() if mapping[name] == file}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": mapping}))
    return index


def test_a_missing_or_torn_shard_is_refused(own: Engine, transformer: nn.Module, tmp_path: Path) -> None:
    before = state(transformer)
    index = sharded(tmp_path / "parts", trained(transformer))
    chunk = index.with_name("part-1.safetensors")
    data = chunk.read_bytes()
    chunk.unlink()
    with pytest.raises(NotFound, match=r"part-1\.safetensors, which is missing \(1 of 3\)"):
        own.sync("digits", "transformer", index, 1)
    chunk.write_bytes(data[:-100])
    with pytest.raises(Refused, match="torn"):
        own.sync("digits", "transformer", index, 1)
    save_file({"patch_out.bias": torch.zeros(4)}, chunk)
    with pytest.raises(Refused, match="which its index promises"):
        own.sync("digits", "transformer", index, 1)
    assert state(transformer) == before


def test_a_pickled_file_is_named_and_never_opened(own: Engine, tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    file.write_bytes(b"no")
    with pytest.raises(Refused, match=r"'weights\.pt' is no \.safetensors file"):
        own.sync("digits", "transformer", file, 1)


# In flight.


def in_flight(engine: Engine, change: Callable[[], None]) -> str:
    """The picture of a request between whose second and third step something is done."""
    events = engine.stream("digits", ASKED)
    for event in events:
        if isinstance(event, StepFinished) and event.step == 2:
            change()
        if isinstance(event, Succeeded):
            return str(contents(event.generation)[0])
    raise AssertionError("the stream ended early")


def test_a_request_in_flight_ends_with_what_it_began_with(own: Engine, transformer: nn.Module) -> None:
    baseline, new = made(own), trained(transformer)
    done = threading.Event()

    def sync() -> None:
        own.sync("digits", "transformer", new, 1)
        done.set()

    thread = threading.Thread(target=sync)

    def begin() -> None:
        thread.start()
        assert not done.wait(0.2), "the sync waits"

    assert in_flight(own, begin) == baseline
    thread.join(20)
    assert done.is_set()
    assert made(own) != baseline


def test_an_undrained_swap_changes_the_output(own: Engine, transformer: nn.Module) -> None:
    baseline, new = made(own), trained(transformer)
    assert in_flight(own, lambda: None) == baseline
    assert in_flight(own, lambda: transformer.load_state_dict(new) and None) != baseline


def test_a_request_that_comes_while_a_sync_waits_has_the_new_weights(
    own: Engine, transformer: nn.Module
) -> None:
    new = trained(transformer)
    other = Engine(device="cpu")
    other.sync("digits", "transformer", new, 1)
    expected = made(other)
    late: list[str] = []
    sync = threading.Thread(target=lambda: own.sync("digits", "transformer", new, 1))
    ask = threading.Thread(target=lambda: late.append(made(own)))

    def begin() -> None:
        sync.start()
        while not own.load("digits").held.leases.waiting_for().startswith("a sync"):
            pass
        ask.start()
        ask.join(0.2)
        assert not late

    in_flight(own, begin)
    sync.join(20)
    ask.join(20)
    assert late == [expected]


def test_who_waits_for_a_sync_is_woken_by_its_end(
    own: Engine, transformer: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by looking again after a while: that while is far longer here than the test waits."""
    monkeypatch.setattr("restrike.engine.scheduling.rounds.POLL_S", 300.0)
    new, changed = trained(transformer), own._door.changed
    writes, waits, go = (threading.Event() for _ in range(3))
    honest, wait = held.written, changed.wait

    def written(module: nn.Module, checked: Any) -> bool:
        writes.set()
        assert go.wait(60)
        return honest(module, checked)

    def waiting(seconds: float | None = None) -> bool:
        waits.set()  # under the lock, which whoever wakes it needs
        return wait(seconds)

    monkeypatch.setattr(held, "written", written)
    monkeypatch.setattr(changed, "wait", waiting)
    late: list[str] = []
    sync = threading.Thread(target=lambda: own.sync("digits", "transformer", new, 1), daemon=True)
    ask = threading.Thread(target=lambda: late.append(made(own)), daemon=True)
    sync.start()
    assert writes.wait(60)
    ask.start()
    assert waits.wait(60)
    go.set()
    ask.join(60)
    assert len(late) == 1


def test_a_sync_from_the_thread_that_drives_a_request_is_refused(own: Engine, transformer: nn.Module) -> None:
    baseline, new = made(own), trained(transformer)

    def sync() -> None:
        with pytest.raises(Refused, match="this same thread drives; finish or close that first"):
            own.sync("digits", "transformer", new, 1)

    assert in_flight(own, sync) == baseline
    own.sync("digits", "transformer", new, 1)


def test_a_request_that_is_closed_or_fails_gives_its_lease_back(own: Engine, transformer: nn.Module) -> None:
    events = own.stream("digits", ASKED)
    next(event for event in events if isinstance(event, StepFinished))
    events.close()
    with pytest.raises(Refused):
        own.generate("digits", Request(prompt="a 3", seed=1, adapters=(Adapter("gone.safetensors"),)))
    own.sync("digits", "transformer", trained(transformer), 1)


def test_all_pictures_of_a_request_have_one_version(own: Engine, transformer: nn.Module) -> None:
    request = Request(prompt="a 3", seed=7, steps=2, items=(0, 1, 2))
    baseline, new = bytes_of(own, request), trained(transformer)
    thread = threading.Thread(target=lambda: own.sync("digits", "transformer", new, 1))
    made: dict[int, str] = {}
    for event in own.stream("digits", request):
        if isinstance(event, PictureFinished) and not thread.is_alive() and event.picture.item == 0:
            thread.start()
        if isinstance(event, Succeeded):
            made = {item: str(content) for item, content in contents(event.generation).items()}
    thread.join(20)
    assert made == baseline


# With adapters.


def test_a_sync_under_adapters_changes_the_base_that_they_act_on(
    own: Engine, transformer: nn.Module, a: Path
) -> None:
    with_a = Request(prompt="a 3", seed=7, steps=4, adapters=(Adapter(a),))
    new = trained(transformer)
    old = made(own, with_a)
    own.sync("digits", "transformer", new, 1)
    assert all(torch.equal(value, new[name]) for name, value in transformer.state_dict().items())
    fresh = Engine(device="cpu")
    fresh.sync("digits", "transformer", new, 1)
    expected = made(fresh, with_a)
    assert made(own, with_a) == expected != old
    assert made(own) == made(fresh)
    assert all(torch.equal(value, new[name]) for name, value in transformer.state_dict().items())


def test_a_refused_sync_leaves_fused_adapters_as_they_are(
    own: Engine, transformer: nn.Module, a: Path
) -> None:
    with_a = Request(prompt="a 3", seed=7, steps=4, adapters=(Adapter(a),))
    before = made(own, with_a)
    fused = state(transformer)
    with pytest.raises(Refused):
        own.sync("digits", "transformer", {}, 1)
    assert state(transformer) == fused
    assert made(own, with_a) == before


def test_a_thousand_syncs_leave_nothing_behind(own: Engine, transformer: nn.Module) -> None:
    held = own.load("digits").held
    small = {
        name: value.clone() for name, value in own.load("digits").component("decoder").state_dict().items()
    }
    for version in range(1, 1001):
        for value in small.values():
            value.mul_(1.0001)
        own.sync("digits", "decoder", small, version)
    assert own.version_of("digits", "decoder").version == 1000
    assert len(held.versions(own.load("digits").card.loops[0])) == 1
    assert own.features.counters.entries <= 1


def test_master_weights_are_rounded_as_when_a_checkpoint_is_loaded() -> None:
    engine = Engine(device="cpu", precision="bfloat16")
    module: nn.Module = engine.load("digits").component("transformer")
    new = {name: value.float() + 0.01 for name, value in module.state_dict().items()}
    engine.sync("digits", "transformer", new, 1)
    assert all(torch.equal(value, new[name].bfloat16()) for name, value in module.state_dict().items())


def test_a_submitted_request_ends_first_and_the_next_has_the_new_weights(
    own: Engine, transformer: nn.Module
) -> None:
    baseline, new = made(own), trained(transformer)
    with own:
        before = own.submit("digits", ASKED)
        watched = iter(before)
        next(event for event in watched if isinstance(event, StepFinished))
        own.sync("digits", "transformer", new, 1)
        after = own.submit("digits", ASKED)
        assert str(contents(before.result(20))[0]) == baseline
        assert str(contents(after.result(20))[0]) != baseline


def test_a_failure_puts_the_very_tensor_back_that_was_replaced() -> None:
    """One that cannot be written to is replaced, and stands there again when a later one fails."""
    module = nn.Module()
    with torch.inference_mode():
        first = nn.Parameter(torch.ones(2), requires_grad=False)
    module.register_parameter("first", first)
    module.register_buffer("second", torch.ones(2))

    class Torn(Given):
        def tensor(self, name: str) -> Tensor:
            if name == "second":
                raise OSError("the disk is gone")
            return super().tensor(name)

    new = syncing.Checked(source=Torn({"first": torch.zeros(2), "second": torch.zeros(2)}), content="")
    with pytest.raises(OSError, match="the disk is gone"):
        syncing.written(module, new)
    assert module.first is first
    assert torch.equal(first, torch.ones(2))
    assert torch.equal(module.get_buffer("second"), torch.ones(2))
