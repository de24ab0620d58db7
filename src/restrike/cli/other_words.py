"""What people say who come from ComfyUI, diffusers or Ollama, and what it is called here.

None of these words is accepted; each is answered with its counterpart. What has a meaning here is not listed.
"""

from __future__ import annotations

from collections.abc import Iterable

_OPTIONS = {
    "--card": ("NAME", "model", "checkpoint", "ckpt", "ckpt-name", "pretrained-model-name-or-path"),
    "--count": ("N", "n", "num", "num-images", "num-images-per-prompt", "num-videos-per-prompt"),
    "--batch": ("N", "batch-size"),
    "--size": ("WxH", "width", "height", "resolution", "image-size"),
    "--frames": ("N", "num-frames", "length", "video-length"),
    "--fps": ("RATE", "frame-rate"),
    "--steps": ("N", "num-inference-steps", "num-steps", "sampling-steps"),
    "--guidance": ("SCALE", "cfg", "cfg-scale", "guidance-scale", "true-cfg-scale"),
    "--guidance-2": ("SCALE", "guidance-scale-2"),
    "--negative": ("PROMPT", "negative-prompt", "neg-prompt"),
    "--solver": ("NAME", "sampler", "sampler-name", "sampling-method", "scheduler"),
    "--shift": ("FACTOR", "flow-shift", "time-shift"),
    "--image": ("FILE", "init-image", "input-image", "input"),
    "--lora": ("FILE[:STRENGTH]", "lora-path", "lora-scale", "lora-strength", "adapter"),
    "--output": ("FILE", "out", "outfile", "output-path", "output-dir", "outdir"),
    "--precision": ("DTYPE", "dtype", "torch-dtype", "fp16", "bf16", "fp32"),
    "--device": ("NAME", "gpu", "cpu", "cuda", "gpu-id", "cuda-device"),
    "--host": ("ADDRESS", "listen", "bind"),
    "--var": ("NAME=VALUE", "set", "param", "input"),
    "--no-reuse": ("", "no-cache", "force"),
    "prompt": ("", "p", "text"),
}
"""For an option of ours what follows it, and what it is called elsewhere; `prompt` is an argument."""

_VERBS = {
    "restrike generate PROMPT": ("txt2img", "img2img", "t2i", "t2v", "i2v", "create", "imagine"),
    "restrike generate PROMPT --card OWNER/NAME": ("pull", "download"),
    "restrike cards": ("list", "ls", "models"),
    "restrike cards show NAME": ("show",),
    "restrike jobs": ("ps", "status"),
    "restrike runs": ("history",),
    "restrike serve": ("start", "launch", "server"),
    "restrike cancel JOB": ("stop", "kill", "abort"),
    "restrike mint CARD": ("compile",),
    "restrike --help": ("help",),
    "restrike --version": ("version",),
}
"""For a command of ours the verbs that mean it elsewhere."""


def option_for(word: str, taken: Iterable[str]) -> str | None:
    """What to say for `word` (`--cfg_scale`) to a verb with some options; None for a word nobody uses."""
    plain, here = word.lstrip("-").replace("_", "-").lower(), set(taken)
    for ours, (follows, *elsewhere) in _OPTIONS.items():
        if ours in here and plain in (*elsewhere, ours):
            return (
                "PROMPT, in quotes, with no option before it"
                if ours == "prompt"
                else f"{ours} {follows}".strip()
            )
    return None


def command_for(word: str) -> str | None:
    """The command that a verb means that there is not; None for a verb nobody uses."""
    if " " in word:
        return f'restrike generate "{word}"'
    return next((ours for ours, elsewhere in _VERBS.items() if word.lower() in elsewhere), None)
