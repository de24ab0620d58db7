"""`restrike kernels`: the table, the measurements, and what bad input gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cli.conftest import Restrike
from restrike.engine.kernels import driver, measuring, samples

OPS = ["guided_euler", "sde_step", "modulate", "rms_rotary"]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table of a machine without a GPU, whatever is here."""
    monkeypatch.setattr(driver, "capabilities", lambda: ())
    monkeypatch.setattr(measuring, "PAIRS", (1, 1))
    monkeypatch.setattr(samples, "LATENTS", samples.LATENTS[:1])
    monkeypatch.setattr(samples, "TOKENS", samples.TOKENS[:1])


def test_the_table_says_which_kernel_serves_and_why(restrike: Restrike) -> None:
    outcome = restrike("kernels")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("cpu, kernels up to 'exact'")
    for expected in (*OPS, "first choice", "not here", "torch, in place", "for cuda, this is cpu"):
        assert expected in outcome.out


def test_an_architecture_need_not_be_here(restrike: Restrike) -> None:
    found = restrike("kernels", "--device", "sm_75", "--variant", "fast", "--json").json
    assert (found["device"], found["variant"]) == ("cuda sm_75", "fast")
    assert [op["op"] for op in found["ops"]] == OPS
    reasons = {kernel["why"] for op in found["ops"] for kernel in op["kernels"] if "80" in kernel["device"]}
    assert reasons == {"for sm_80 and newer, this is sm_75"}
    firsts = [kernel for op in found["ops"] for kernel in op["kernels"] if kernel["place"] == "first choice"]
    assert [kernel["variant"] for kernel in firsts] == ["reference"] * len(OPS)


def test_measurements_are_the_figures_that_decide(restrike: Restrike) -> None:
    found = restrike("kernels", "--measure", "--device", "cpu", "--json").json
    measured = found["measurements"]
    assert {each["op"] for each in measured} == {"guided_euler", "sde_step", "rms_rotary"}
    for each in measured:
        assert each["why"] in ("faster", "not faster than the reference")
        assert each["chosen"] == (each["timing"]["ratio"] <= 0.98)
    outcome = restrike("kernels", "--measure", "--device", "cpu")
    assert "measured here" in outcome.out
    assert " us to " in outcome.out or " ms to " in outcome.out
    assert restrike("kernels", "--measure", "--variant", "reference", "--json").json["measurements"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--variant", "fats"),
            "unknown kernel variant 'fats', did you mean 'fast'? Known: exact, fast, ref",
        ),
        (("--device", "gpu"), "unknown device 'gpu'"),
        (("--device", "cuda:3"), "unknown device 'cuda:3'"),
        (("--device", "sm_90", "--measure"), "--measure needs a device that torch sees here"),
    ],
)
def test_bad_input_is_named_with_what_exists(
    restrike: Restrike, arguments: tuple[str, ...], said: str
) -> None:
    outcome = restrike("kernels", *arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_table_imports_no_torch() -> None:
    code = (
        "import sys; from restrike.cli.app import run\n"
        "assert run(['kernels', '--json']) == 0 and run(['kernels', '--device', 'sm_90']) == 0\n"
        "heavy = {'torch', 'triton', 'numpy'} & set(sys.modules); assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
