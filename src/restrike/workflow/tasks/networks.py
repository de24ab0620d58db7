"""Networks in ncnn's own files, a .param and a .bin, run on the processor. No task is here.

Axes: C channels (red, green, blue from 0 to 1), H height, W width.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from restrike.errors import Refused
from restrike.workflow.tasks.extras import needed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"7767517\n"


class Network:
    """A loaded network with its first output; inputs in the order in which the .param file lists them."""

    def __init__(self, param: Path, weights: Path, *, by: str) -> None:
        self._ncnn = needed("ncnn", by=by)
        if not param.read_bytes().replace(b"\r\n", b"\n").startswith(_MAGIC):
            raise Refused(f"'{param.name}' is not a .param file of ncnn")
        self._net = self._ncnn.Net()
        self._net.opt.use_vulkan_compute = False
        # Half precision would make the result depend on the processor.
        for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic"):
            setattr(self._net.opt, option, False)
        if self._net.load_param(str(param)) or self._net.load_model(str(weights)):
            raise Refused(f"ncnn cannot load '{param.name}' with '{weights.name}'")
        self.inputs: tuple[str, ...] = tuple(self._net.input_names())

    def run(self, inputs_CHW: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Its output for one array an input."""
        import numpy as np

        # ncnn reads the arrays where they are, so they are held until it has run.
        held = [np.ascontiguousarray(array, np.float32) for array in inputs_CHW]
        extractor = self._net.create_extractor()
        for name, array in zip(self.inputs, held, strict=True):
            extractor.input(name, self._ncnn.Mat(array))
        failed, output = extractor.extract(self._net.output_names()[0])
        if failed:
            raise Refused(f"the network cannot run on {' and '.join(str(array.shape) for array in held)}")
        out_CHW = np.array(output)
        del output, extractor
        if out_CHW.ndim != 3 or out_CHW.shape[0] != 3:
            raise Refused(f"the network gives {out_CHW.shape}, not three colours of a picture")
        return out_CHW


def planes(frame_HWC: NDArray[np.uint8]) -> NDArray[Any]:
    """A frame as a network takes it; opacity is left out."""
    import numpy as np

    return (frame_HWC[..., :3].astype(np.float32) / 255).transpose(2, 0, 1)


def bytes_of(out_CHW: Any) -> NDArray[np.uint8]:
    """A network's picture as a frame."""
    from restrike.workflow.tasks.frames import to_bytes

    return to_bytes(out_CHW.transpose(1, 2, 0))
