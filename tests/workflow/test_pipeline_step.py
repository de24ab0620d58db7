"""The `pipeline` step: what decides its key, that each option is real, and what is refused by name."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from restrike.cards.checkpoint import Folder
from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.keys import Key
from restrike.models.pipeline.options import PipelineOptions, card_with
from restrike.workflow.keying import step_key

from .runs.lab import CountedEngine, Lab, does
from .samples import expanded, findings
from .tiny_pipelines import checkpoint, lora

# torch's own __array__, which diffusers' schedulers call.
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy:DeprecationWarning"
)
CALL = {"prompt": "a cat", "num_inference_steps": 2, "width": 32, "height": 32}


@pytest.fixture(scope="module")
def sd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint("sd", tmp_path_factory.mktemp("sd") / "model")


@pytest.fixture(scope="module")
def style(sd: Path) -> Path:
    return lora(sd.parent / "style.safetensors", sd, seed=1)


@pytest.fixture(scope="module")
def other(sd: Path) -> Path:
    return lora(sd.parent / "other.safetensors", sd, seed=2)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(device="cpu")


def step(model: Path, *, arguments: dict[str, Any] | None = None, seed: int = 3, **options: Any) -> Any:
    spec = {"checkpoint": str(model), **options}
    return {"pipeline": spec, "arguments": CALL | (arguments or {}), "seed": seed}


def action(model: Path, **given: Any) -> Any:
    (made,) = expanded({"steps": {"photo": step(model, **given)}}).actions
    return made


def key(model: Path, *, match: str = "portable", **given: Any) -> Key:
    graph = expanded({"steps": {"photo": step(model, **given)}, "reuse": {"match": match}})
    return step_key(graph, graph.actions[0], {}).key


def made(engine: Engine, model: Path, **given: Any) -> Any:
    call = action(model, **given)
    return call.operation.run(engine, call.arguments, call.seed, lambda event: None)


def pixels(engine: Engine, model: Path, **given: Any) -> Any:
    return made(engine, model, **given).frames_THWC


def wrong(model: Path, **given: Any) -> dict[str, str]:
    return {
        path.removeprefix("steps.photo."): message
        for path, message in findings({"steps": {"photo": step(model, **given)}}).items()
    }


# Keys.


def test_the_same_step_has_the_same_key(sd: Path, style: Path) -> None:
    loras = [{"path": str(style), "scale": 0.5}]
    assert key(sd, loras=loras) == key(sd, loras=loras)


CHANGES: dict[str, dict[str, Any]] = {
    "class": {"class": "StableDiffusionImg2ImgPipeline"},
    "scheduler": {"scheduler": {"class": "DDIMScheduler"}},
    "scheduler option": {"scheduler": {"class": "DDIMScheduler", "options": {"eta": 0.5}}},
    "precision": {"precision": "bfloat16"},
    "variant": {"load": {"variant": "fp16"}},
    "left out": {"load": {"text_encoder": None}},
    "attention": {"attention": "_native_math"},
    "call argument": {"arguments": {"guidance_scale": 3.0}},
    "type of a call argument": {"arguments": {"num_inference_steps": 2.0}},
    "count": {"arguments": {"count": 2}},
    "seed": {"seed": 4},
    "LoRA": {"loras": ["style"]},
    "two LoRAs": {"loras": ["style", "other"]},
    "their order": {"loras": ["other", "style"]},
    "scale": {"loras": [{"path": "style", "scale": 0.5}]},
}


def with_files(given: dict[str, Any], files: dict[str, Path]) -> dict[str, Any]:
    if "loras" not in given:
        return given
    entries = [{"path": entry} if isinstance(entry, str) else entry for entry in given["loras"]]
    return given | {"loras": [entry | {"path": str(files[entry["path"]])} for entry in entries]}


def test_each_part_changes_the_key(sd: Path, style: Path, other: Path) -> None:
    files = {"style": style, "other": other}
    keys = {name: key(sd, **with_files(given, files)) for name, given in CHANGES.items()}
    keys["none"] = key(sd)
    assert len({found.digest for found in keys.values()}) == len(CHANGES) + 1, keys
    (difference,) = keys["none"].diff(keys["precision"])
    assert difference.path == "operation.precision"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"loras": [{"path": "style", "name": "ink"}]}, {"loras": [{"path": "style", "name": "pen"}]}),
        ({"loras": [{"path": "style", "scale": 1}]}, {"loras": [{"path": "style"}]}),
        ({"loras": [{"path": "style"}]}, {"loras": [{"path": "renamed"}]}),
        ({"arguments": {"negative_prompt": None}}, {}),
        (
            {"arguments": {"guidance_scale": 2.0, "eta": 0.1}},
            {"arguments": {"eta": 0.1, "guidance_scale": 2.0}},
        ),
        ({"class": "StableDiffusionPipeline"}, {}),
        ({"precision": "float32"}, {}),
        ({"offload": "none"}, {}),
    ],
)  # fmt: skip
def test_what_decides_nothing_is_not_in_the_key(
    sd: Path, style: Path, before: dict[str, Any], after: dict[str, Any]
) -> None:
    renamed = style.with_name("renamed.safetensors")
    shutil.copy(style, renamed)
    files = {"style": style, "renamed": renamed}
    assert key(sd, **with_files(before, files)) == key(sd, **with_files(after, files))


def test_a_disabled_lora_is_told_and_is_as_none(sd: Path, style: Path) -> None:
    loras = [{"path": None, "name": "ink"}]
    graph = expanded({"steps": {"photo": step(sd, loras=loras)}})
    assert graph.notices == ("LoRA 'ink' is disabled: its path is null",)
    assert key(sd, loras=loras) == key(sd)


def test_a_model_that_moved_is_the_same_and_one_that_was_edited_is_not(sd: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(sd, moved)
    assert key(moved) == key(sd)
    edited(moved / "unet" / "diffusion_pytorch_model.safetensors")
    (difference,) = key(sd).diff(key(moved))
    assert difference.path == "operation.weights"


def test_a_lora_of_the_same_name_with_other_bytes_is_another(sd: Path, tmp_path: Path) -> None:
    file = lora(tmp_path / "style.safetensors", sd, seed=1)
    before = key(sd, loras=[{"path": str(file)}])
    lora(file, sd, seed=9)
    (difference,) = before.diff(key(sd, loras=[{"path": str(file)}]))
    assert difference.path == "operation.loras[0].file"


def test_offload_and_libraries_are_of_exact_keys_alone(sd: Path) -> None:
    call = action(sd).operation
    moved = replace(call, options=replace(call.options, offload="model"))
    assert moved.identity() == call.identity()
    assert moved.exact_identity() != call.exact_identity()
    machine: Any = key(sd, match="exact").parts["machine"]
    assert machine["libraries"]["diffusers"]


def edited(file: Path) -> None:
    """Change one byte of the last tensor of a file, in place."""
    with file.open("r+b") as bytes_:
        bytes_.seek(-2, os.SEEK_END)
        bytes_.write(b"\x7f")


# Runs.


def test_the_call_gets_exactly_the_arguments(engine: Engine, sd: Path) -> None:
    from diffusers.pipelines.pipeline_utils import DiffusionPipeline

    pipeline: Any = DiffusionPipeline.from_pretrained(sd, dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    said = CALL | {"guidance_scale": 4.0, "negative_prompt": "a dog"}
    direct = pipeline(**said, generator=torch.Generator().manual_seed(3)).images[0]
    ours = pixels(engine, sd, arguments={"guidance_scale": 4.0, "negative_prompt": "a dog"})
    assert np.array_equal(ours[0], np.asarray(direct))


def test_count_gives_a_list_of_which_each_is_made_as_alone(engine: Engine, sd: Path) -> None:
    clips = made(engine, sd, arguments={"count": 2})
    assert np.array_equal(clips[0].frames_THWC, pixels(engine, sd))
    assert not np.array_equal(clips[1].frames_THWC, clips[0].frames_THWC)


def test_loras_are_real_and_switching_back_gives_the_same(
    engine: Engine, sd: Path, style: Path, other: Path
) -> None:
    def with_loras(*entries: tuple[Path, float]) -> Any:
        return pixels(engine, sd, loras=[{"path": str(file), "scale": scale} for file, scale in entries])

    bare = pixels(engine, sd)
    first = with_loras((style, 1.0))
    different = [bare, first, with_loras((other, 1.0)), with_loras((style, 0.5)),
                 with_loras((style, 1.0), (other, 1.0))]  # fmt: skip
    assert len({picture.tobytes() for picture in different}) == len(different)
    assert np.array_equal(with_loras((style, 1.0)), first)
    assert np.array_equal(with_loras((style, 0.0)), bare)
    assert np.array_equal(pixels(engine, sd), bare)
    alone = pixels(Engine(device="cpu"), sd, loras=[{"path": str(style)}])
    assert np.array_equal(alone, first)


def test_a_lora_of_the_text_encoder_is_bound_too(engine: Engine, sd: Path, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    noise, layer = torch.Generator().manual_seed(4), "text_encoder.encoder.layers.0.self_attn.v_proj"
    shapes = {"A": (2, 16), "B": (16, 2)}
    file = tmp_path / "words.safetensors"
    save_file({f"{layer}.lora_{n}.weight": torch.randn(s, generator=noise) for n, s in shapes.items()}, file)
    loud, silent = (pixels(engine, sd, loras=[{"path": str(file), "scale": scale}]) for scale in (20, 0))
    assert not np.array_equal(loud, silent)
    assert np.array_equal(silent, pixels(engine, sd))


def test_a_lora_binds_in_each_published_spelling(
    engine: Engine, sd: Path, style: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    spelled: dict[str, dict[str, Any]] = {"diffusers": {}, "kohya": {}}
    for name, tensor in load_file(style).items():
        module, part = name.removesuffix(".weight").rsplit(".", 1)
        head, leaf = module.rsplit(".", 1)
        direction = {"lora_A": "down", "lora_B": "up"}[part]
        spelled["diffusers"][f"{head}.processor.{leaf}_lora.{direction}.weight"] = tensor
        flat = "lora_" + module.replace(".", "_")
        spelled["kohya"] |= {f"{flat}.lora_{direction}.weight": tensor, f"{flat}.alpha": torch.tensor(2.0)}
    as_peft = pixels(engine, sd, loras=[{"path": str(style)}])
    for name, tensors in spelled.items():
        save_file(tensors, tmp_path / f"{name}.safetensors")
        loras = [{"path": str(tmp_path / f"{name}.safetensors")}]
        assert np.array_equal(pixels(engine, sd, loras=loras), as_peft), name


def test_option_sets_share_the_weights_and_nothing_else(engine: Engine, sd: Path, style: Path) -> None:
    def loaded(**options: Any) -> Any:
        return engine.load(action(sd, **options).operation.card()).component("pipeline")

    bare, strong, weak = loaded(), *(loaded(loras=[{"path": str(style), "scale": s}]) for s in (1.0, 0.5))
    assert strong is not weak
    name = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q"
    layers = [pipeline.unet.get_submodule(name) for pipeline in (bare, strong, weak)]
    assert layers[1].base_layer.weight is layers[2].base_layer.weight is layers[0].weight
    assert layers[1].scaling is not layers[2].scaling
    assert not hasattr(layers[0], "lora_A")
    assert bare.vae.decoder.conv_in.weight is strong.vae.decoder.conv_in.weight


def test_interleaved_requests_with_other_loras_are_as_serial_ones(
    engine: Engine, sd: Path, style: Path, other: Path
) -> None:
    sets = [
        [],
        [{"path": str(style)}],
        [{"path": str(other), "scale": 0.7}],
        [{"path": str(style), "scale": 2}],
    ]
    calls = [action(sd, loras=loras) for loras in sets]
    requests = [(call.operation.card(), Request(prompt="", seed=3, call=CALL)) for call in calls]
    together = engine.generate_interleaved(requests)
    for call, end in zip(calls, together, strict=True):
        alone = call.operation.run(Engine(device="cpu"), call.arguments, 3, lambda event: None)
        assert np.array_equal(end.result().pictures[0].frames_THWC, alone.frames_THWC)


def test_a_model_edited_in_place_is_loaded_anew_by_the_same_engine(sd: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(sd, model)
    engine = Engine(device="cpu")
    before = pixels(engine, model)
    shutil.rmtree(model / "unet")
    shutil.copytree(checkpoint("sd", tmp_path / "newer", seed=5) / "unet", model / "unet")
    after = pixels(engine, model)
    assert not np.array_equal(before, after)
    assert np.array_equal(after, pixels(Engine(device="cpu"), model))


def test_a_model_edited_after_it_was_keyed_is_refused(tmp_path: Path) -> None:
    model = checkpoint("sd", tmp_path / "model", seed=8)
    call = action(model)
    call.operation.identity()
    edited(model / "unet" / "diffusion_pytorch_model.safetensors")
    with pytest.raises(Refused, match="was changed while it was used; run it again"):
        call.operation.run(Engine(device="cpu"), call.arguments, 3, lambda event: None)


def test_another_scheduler_and_its_options_are_real(engine: Engine, sd: Path) -> None:
    euler = {"class": "EulerDiscreteScheduler"}
    pictures = [
        pixels(engine, sd),
        pixels(engine, sd, scheduler=euler),
        pixels(engine, sd, scheduler=euler | {"options": {"timestep_spacing": "trailing"}}),
    ]
    assert len({picture.tobytes() for picture in pictures}) == 3
    assert np.array_equal(pixels(engine, sd), pictures[0])


def test_precision_class_and_left_out_parts_are_real(engine: Engine, sd: Path) -> None:
    plain = made(engine, sd)
    half = pixels(engine, sd, precision="bfloat16")
    assert not np.array_equal(half, plain.frames_THWC)
    call = action(sd, **{"class": "StableDiffusionImg2ImgPipeline"})
    given = {"prompt": "a cat", "num_inference_steps": 4, "image": plain, "strength": 0.5}
    again = call.operation.run(engine, given, 3, lambda event: None)
    assert again.frames_THWC.shape == plain.frames_THWC.shape
    call = action(sd, load={"vae": None})
    assert engine.load(call.operation.card()).component("pipeline").vae is None


# Refusals when the workflow is checked.


@pytest.mark.parametrize(
    ("options", "path", "words"),
    [
        ({"checkpoint": "/nowhere"}, "pipeline.checkpoint", "no checkpoint folder at '/nowhere'"),
        ({"checkpoint": "nowhere"}, "pipeline.checkpoint", "no checkpoint folder 'nowhere'"),
        ({"checkpoint": "shapes"}, "pipeline.checkpoint", "it is no hub id"),
        ({"class": "StableDifusionPipeline"}, "pipeline.class", "did you mean 'StableDiffusionPipeline'?"),
        ({"class": "AutoPipelineForText2Image"}, "pipeline.class", "no pipeline class"),
        ({"class": "os.system"}, "pipeline.class", "no pipeline class"),
        ({"scheduler": {"class": "DDIM"}}, "pipeline.scheduler.class", "no scheduler in the installed"),
        ({"attention": "nativ"}, "pipeline.attention", "did you mean 'native'?"),
        ({"offload": "modle"}, "pipeline.offload", "input should be 'none', 'model', 'sequen"),
        ({"offload": ["group", "model"]}, "pipeline.offload", "input should be"),
        ({"offload": "model"}, "pipeline.offload", "needs a GPU"),
        ({"load": {"varient": "fp16"}}, "pipeline.load.varient", "did you mean 'variant'?"),
        ({"load": {"device_map": "auto"}}, "pipeline.load.device_map", "no loading option or component"),
        ({"load": {"vae": "other"}}, "pipeline.load.vae", "can only be left out, by null"),
        ({"quantization": {"class": "Int4"}}, "pipeline.quantization.class",
         "no quantization 'Int4' (there is BitsAndBytesConfig, QuantoConfig, TorchAoConfig)"),
        ({"quantization": {"class": "QuantoConfig"}}, "pipeline.quantization.class",
         "QuantoConfig needs optimum-quanto, which is not installed"),
        ({"arguments": {"generator": 1}}, "arguments.generator", "seed and items decide the noise"),
        ({"arguments": {"seed": 1}}, "arguments.seed", "stands beside its arguments"),
        ({"arguments": {"count": 0}}, "arguments.count", "not a whole number from 1 to 1000"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_found_before_anything_runs(
    sd: Path, options: dict[str, Any], path: str, words: str
) -> None:
    found = wrong(sd, **options) if "checkpoint" not in options else wrong(Path(options["checkpoint"]))
    assert words in found[path], found


def test_loras_that_cannot_be_are_found_before_anything_runs(sd: Path, tmp_path: Path) -> None:
    (tmp_path / "style.bin").write_bytes(b"pickle")
    (tmp_path / "torn.safetensors").write_bytes(b"torn")
    (tmp_path / "several").mkdir()
    lora(tmp_path / "several" / "a.safetensors", sd, seed=1)
    lora(tmp_path / "several" / "b.safetensors", sd, seed=1)
    shutil.copy(sd / "unet" / "diffusion_pytorch_model.safetensors", tmp_path / "model.safetensors")
    names = {
        "style.bin": "can run code when they are read",
        "torn.safetensors": "is torn",
        "several": "say which file, as weight_name (there is a.safetensors, b.safetensors)",
        "model.safetensors": "holds no LoRA",
        "absent.safetensors": "no LoRA file at",
    }
    found = wrong(sd, loras=[{"path": str(tmp_path / name)} for name in names])
    for number, words in enumerate(names.values()):
        assert words in found[f"pipeline.loras[{number}].path"], found
    chosen = [{"path": str(tmp_path / "several"), "weight_name": "a.safetensors"}]
    assert action(sd, loras=chosen).operation.loading.adapters[0].file.name == "a.safetensors"


def test_a_check_imports_neither_torch_nor_diffusers(sd: Path) -> None:
    import subprocess
    import sys

    program = (
        "import json, sys; from pathlib import Path\n"
        "from restrike.workflow.expansion import Machine, expand\n"
        "from restrike.workflow.keying import step_key\n"
        "from restrike.workflow.source import read_tree\n"
        "from restrike.workflow.tasks.registry import Tasks\n"
        "tree = json.loads(sys.argv[1])\n"
        "graph = expand(read_tree(tree), {}, Path('.'), Machine(tasks=Tasks(), device='cpu'))\n"
        "step_key(graph, graph.actions[0], {})\n"
        "assert not {'torch', 'diffusers', 'transformers', 'peft'} & set(sys.modules)\n"
    )
    tree = {"steps": {"photo": step(sd, scheduler={"class": "DDIMScheduler"}, attention="native")}}
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(tree)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


# Refusals when it runs.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"arguments": {"steps": 3}}, r"has no call argument 'steps', did you mean 'num_inference_steps'\?"),
        ({"arguments": {"etta": 3}}, r"has no call argument 'etta', did you mean 'eta'\?"),
        ({"scheduler": {"class": "DDIMScheduler", "options": {"beta": 1}}}, "has no option 'beta'"),
        ({"attention": "native"}, "no effect on StableDiffusionPipeline, whose attention cannot choose"),
        ({"load": {"variant": "fp16"}}, r"has no variant 'fp16' \(there is plain weights only\)"),
        ({"class": "FluxPipeline"}, "does not load as FluxPipeline"),
    ],
)  # fmt: skip
def test_what_a_class_does_not_take_is_refused_by_name(
    engine: Engine, sd: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        made(engine, sd, **options)


def test_a_lora_that_binds_nothing_or_not_all_is_refused(engine: Engine, sd: Path, tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Path], Path], str]] = [
        (lambda file: lora(file, sd, seed=1, extra="mid_block.absent.to_q"), "no place for .*absent.to_q"),
        (lambda file: lora(file, sd, seed=1, half=True), "lacks tensors for .*lora_B"),
        (lambda file: _for_a_transformer(file), "binds 0 of its 2 tensors"),
    ]
    for number, (write, words) in enumerate(cases):
        file = write(tmp_path / f"{number}.safetensors")
        with pytest.raises(Refused, match=f"LoRA '{number}' .*{words}"):
            pixels(engine, sd, loras=[{"path": str(file)}])


def _for_a_transformer(file: Path) -> Path:
    from safetensors.torch import save_file

    parts = {"A": torch.ones(2, 8), "B": torch.ones(8, 2)}
    save_file({f"transformer.blocks.0.to_q.lora_{part}.weight": t for part, t in parts.items()}, file)
    return file


def test_offload_on_a_machine_without_a_gpu_is_refused(sd: Path) -> None:
    offloading = replace(card_with(PipelineOptions(offload="group")), location=Folder(sd))
    with pytest.raises(
        Refused, match="offload 'group' needs a GPU to bring weights to, and this runs on cpu"
    ):
        Engine(device="cpu").generate(offloading, Request(prompt="a cat", seed=1))


def test_an_attention_backend_is_one_pipelines_own(tmp_path: Path) -> None:
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry

    flux = checkpoint("flux", tmp_path / "flux")
    before = _AttentionBackendRegistry.get_active_backend()[0]
    engine = Engine(device="cpu")
    options = {"arguments": {"guidance_scale": 4.0}}
    plain, chosen = action(flux, **options), action(flux, attention="_native_math", **options)
    pictures = [call.operation.run(engine, call.arguments, 3, lambda event: None) for call in (plain, chosen)]
    assert pictures[0].frames_THWC.shape == pictures[1].frames_THWC.shape
    assert _AttentionBackendRegistry.get_active_backend()[0] == before
    backends = [
        _backends(engine.load(call.operation.card()).component("pipeline")) for call in (plain, chosen)
    ]
    assert backends == [{None}, {"_native_math"}]
    with pytest.raises(Refused, match=r"attention backend 'flash': .*flash-attn"):
        made(engine, flux, attention="flash", **options)
    with pytest.raises(Refused, match="'sage_hub' runs code from the hub"):
        made(engine, flux, attention="sage_hub", **options)


def _backends(pipeline: Any) -> set[Any]:
    processors = pipeline.transformer.attn_processors.values()
    return {None if p._attention_backend is None else p._attention_backend.value for p in processors}


def test_torchao_quantizes_what_it_is_told_to(engine: Engine, sd: Path) -> None:
    pytest.importorskip("torchao")
    int8 = {"quant_type": {"class": "Int8WeightOnlyConfig"}}
    quantization = {"class": "TorchAoConfig", "options": int8}
    plain = pixels(engine, sd)
    quantized = pixels(engine, sd, quantization=quantization)
    assert not np.array_equal(plain, quantized)
    assert np.array_equal(pixels(engine, sd), plain)
    with pytest.raises(Refused, match=r"has no configuration 'Int3'"):
        pixels(engine, sd, quantization=quantization | {"options": {"quant_type": {"class": "Int3"}}})


def test_cards_that_load_the_same_are_equal(sd: Path, style: Path) -> None:
    loras = [{"path": str(style), "name": "ink"}]
    cards = [action(sd, loras=loras).operation.card() for _ in range(2)]
    assert cards[0] == cards[1] != action(sd).operation.card()
    assert hash(cards[0]) == hash(cards[1])


def test_a_workflow_reuses_it_until_the_model_is_edited(sd: Path, tmp_path: Path) -> None:
    lab = Lab(tmp_path, CountedEngine(Engine(device="cpu")))
    model = tmp_path / "model"
    shutil.copytree(sd, model)
    tree = {"steps": {"photo": step(model)}}
    first, again = lab.run(tree), lab.run(tree)
    assert [does(manifest) for manifest in (first, again)] == [{"photo": "computed"}, {"photo": "reused"}]
    shutil.rmtree(model / "unet")
    shutil.copytree(checkpoint("sd", tmp_path / "newer", seed=5) / "unet", model / "unet")
    assert does(lab.run(tree)) == {"photo": "computed"}
    assert lab.engine.generations == 2
    pictures = [next(lab.folder(run).glob("*.png")).read_bytes() for run in (first, again)]
    assert pictures[0] == pictures[1]


def test_a_card_of_an_edited_model_is_loaded_anew_too(sd: Path, tmp_path: Path) -> None:
    lab = Lab(tmp_path, CountedEngine(Engine(device="cpu")))
    model = tmp_path / "model"
    shutil.copytree(sd, model)
    said = {"prompt": "a cat", "steps": 2, "width": 32, "height": 32}
    tree = {"seed": 3, "steps": {"photo": {"generate": str(model), "arguments": said}}}
    lab.run(tree)
    shutil.rmtree(model / "unet")
    shutil.copytree(checkpoint("sd", tmp_path / "newer", seed=5) / "unet", model / "unet")
    after = lab.run(tree)
    fresh = Engine(device="cpu").generate(str(model), Request(seed=3, **said))  # pyright: ignore[reportArgumentType]
    with Image.open(next(lab.folder(after).glob("*.png"))) as picture:
        assert np.array_equal(np.asarray(picture.convert("RGB")), fresh.pictures[0].frames_THWC[0])
