"""Grades and transfers of colour."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.workflow.tasks.colour import _lab, _rgb, grade, grey, invert, transfer
from restrike.workflow.tasks.frames import to_bytes
from restrike.workflow.tasks.picture import blank
from restrike.workflow.values import Clip

from .making import disc, glass, picture


def colour_of(clip: Clip) -> tuple[int, ...]:
    return tuple(int(value) for value in clip.frames_THWC[0, 0, 0])


def test_a_grade_of_nothing_is_the_clip_itself() -> None:
    clip = disc()
    assert grade(clip) is clip
    assert transfer(clip, picture(), 0.0) is clip


def test_a_stop_doubles_the_light() -> None:
    # Grey 100 is 0.1274 of full light (IEC 61966-2-1); twice that is grey 138.
    assert colour_of(grade(blank(2, 2, "#646464"), exposure=1.0)) == (138, 138, 138)


def test_temperature_moves_red_against_blue_and_keeps_the_luminance() -> None:
    ground = blank(2, 2, "#808080")
    warm, cold = (colour_of(grade(ground, temperature=t)) for t in (1.0, -1.0))
    assert warm[0] > 128 > warm[2]
    assert cold[0] < 128 < cold[2]
    weights = np.array([0.2126, 0.7152, 0.0722])
    light = [float((np.array(rgb) / 255) ** 2.2 @ weights) for rgb in (warm, cold)]
    assert light == pytest.approx([0.2195, 0.2195], abs=0.005)
    assert colour_of(grade(ground, tint=1.0))[1] < 128 < colour_of(grade(ground, tint=-1.0))[1]


def test_contrast_saturation_and_gamma() -> None:
    assert colour_of(grade(blank(2, 2, "#404040"), contrast=0.0)) == (128, 128, 128)
    assert colour_of(grade(blank(2, 2, "#404040"), contrast=1.5)) < (64, 64, 64)
    assert colour_of(grade(blank(2, 2, "#404040"), gamma=2.0)) == (128, 128, 128)
    red, green, blue = colour_of(grade(blank(2, 2, "#c83232"), saturation=0.0))
    assert red == green == blue == round(0.2126 * 200 + 0.7874 * 50)
    assert np.array_equal(grey(disc()).frames_THWC, grade(disc(), saturation=0.0).frames_THWC)


def test_invert_twice_is_nothing_and_keeps_opacity() -> None:
    once = invert(glass())
    assert np.array_equal(once.frames_THWC[..., 3], glass().frames_THWC[..., 3])
    assert np.array_equal(invert(once).frames_THWC, glass().frames_THWC)


@settings(max_examples=30)
@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_lab_and_back_is_the_colour(rgb: tuple[int, int, int]) -> None:
    value = np.array([[rgb]], np.float32) / 255
    assert tuple(to_bytes(_rgb(_lab(value)))[0, 0]) == rgb


def test_lab_of_known_colours() -> None:
    # Values of the CIE formulas for sRGB primaries under D65.
    known = {
        (255, 0, 0): (53.24, 80.09, 67.20),
        (0, 0, 255): (32.30, 79.19, -107.86),
        (255, 255, 255): (100, 0, 0),
    }
    for rgb, lab in known.items():
        found = _lab(np.array([[rgb]], np.float32) / 255)[0, 0]
        assert found == pytest.approx(lab, abs=0.05)


def test_transfer_gives_the_reference_its_mean_and_spread() -> None:
    reference = grade(disc(1, 24, fps=None), temperature=0.6, saturation=0.7)
    made = transfer(disc(), reference)

    def statistics(clip: Clip) -> list[float]:
        lab = _lab(clip.frames_THWC.astype(np.float32) / 255).reshape(-1, 3)
        return [*lab.mean(axis=0), *lab.std(axis=0)]

    assert statistics(made) == pytest.approx(statistics(reference), abs=1.5)
    assert statistics(disc()) != pytest.approx(statistics(reference), abs=1.5)


def test_transfer_onto_itself_changes_nothing() -> None:
    assert np.array_equal(transfer(disc(), disc()).frames_THWC, disc().frames_THWC)
