"""Sizes, shapes and arrangements of pictures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from restrike.cards.request import Request
from restrike.engine.engine import Engine
from restrike.errors import Refused
from restrike.workflow.tasks.arrange import compose, contact_sheet, grid
from restrike.workflow.tasks.frames import size_of
from restrike.workflow.tasks.lettering import write_text
from restrike.workflow.tasks.picture import blank, box, crop, flip, pad, resize, rotate
from restrike.workflow.tasks.upscale import by_filter
from restrike.workflow.values import Clip

from .making import disc, glass, picture

MARGIN = st.integers(0, 9)


def same(a: Clip, b: Clip) -> bool:
    return a.fps == b.fps and np.array_equal(a.frames_THWC, b.frames_THWC)


@settings(max_examples=20)
@given(MARGIN, MARGIN, MARGIN, MARGIN, st.sampled_from(["colour", "edge", "mirror"]))
def test_crop_undoes_pad(left: int, top: int, right: int, bottom: int, mode: str) -> None:
    clip = disc(2, 16)
    larger = pad(clip, left, top, right, bottom, mode=mode)  # pyright: ignore[reportArgumentType]
    assert size_of(larger) == (16 + left + right, 16 + top + bottom)
    assert same(crop(larger, 16, 16, left, top), clip)


@settings(max_examples=10)
@given(st.sampled_from(["horizontal", "vertical"]), st.integers(-4, 4))
def test_flips_and_quarter_turns_undo_themselves(direction: str, quarters: int) -> None:
    clip = crop(disc(2, 16), 16, 10)
    assert same(flip(flip(clip, direction), direction), clip)  # pyright: ignore[reportArgumentType]
    assert same(rotate(rotate(clip, 90 * quarters), -90 * quarters), clip)


def test_a_quarter_turn_is_counter_clockwise_as_in_pillow() -> None:
    clip = crop(disc(1, 16), 16, 10)
    turned = Image.fromarray(clip.frames_THWC[0]).rotate(90, expand=True)
    assert np.array_equal(rotate(clip, 90).frames_THWC[0], np.array(turned))


def test_resize_to_the_size_it_has_changes_nothing() -> None:
    clip = disc()
    assert same(resize(clip, width=32, height=32, fit="cover"), clip)


def test_resize_keeps_the_shape_where_one_side_is_left_out() -> None:
    assert size_of(resize(crop(disc(), 32, 20), width=16)) == (16, 10)
    assert size_of(resize(crop(disc(), 32, 20), height=40)) == (64, 40)
    with pytest.raises(Refused, match="a width, a height, or both"):
        resize(disc())


def test_the_ways_to_fit() -> None:
    wide = crop(disc(1), 32, 16)
    assert size_of(resize(wide, 20, 20, fit="stretch")) == (20, 20)
    assert size_of(resize(wide, 20, 20, fit="inside")) == (20, 10)
    assert size_of(resize(wide, 20, 20, fit="cover")) == (20, 20)
    padded = resize(wide, 20, 20, fit="pad", colour="lime").frames_THWC[0]
    assert padded.shape == (20, 20, 3)
    assert (padded[:5] == (0, 255, 0)).all()
    assert not (padded[5:15] == (0, 255, 0)).all(axis=-1).any()


def test_a_crop_beyond_the_picture_is_refused() -> None:
    with pytest.raises(Refused, match=r"40x8 at \(-4, 12\) reaches beyond the picture of 32x32"):
        crop(disc(), 40, 8)


def test_opacity_that_the_picture_cannot_hold_is_refused() -> None:
    with pytest.raises(Refused, match="#ff000080 is not opaque, and the picture is"):
        pad(picture(), 1, colour="#ff000080")
    assert pad(glass(), 1, colour="#ff000080").frames_THWC[0, 0, 0].tolist() == [255, 0, 0, 128]


def test_a_result_that_fills_the_memory_is_refused_beforehand() -> None:
    with pytest.raises(Refused, match="limit is"):
        resize(disc(100), 16384, 16384)


def test_compose_keeps_what_the_overlay_does_not_reach() -> None:
    base, top = disc(3), blank(8, 8, "white")
    made = compose(base, top, anchor="bottom right", left=-2)
    changed = (made.frames_THWC != base.frames_THWC).any(axis=(0, 3))
    assert changed[24:32, 22:30].all()
    changed[24:32, 22:30] = False
    assert not changed.any()
    assert (made.frames_THWC[:, 24:32, 22:30] == 255).all()


def test_compose_is_pillows_over() -> None:
    base = picture(12)
    base = crop(base, 12, 8)
    ours = compose(base, glass(), opacity=1.0).frames_THWC[0]
    theirs = Image.alpha_composite(
        Image.fromarray(base.frames_THWC[0]).convert("RGBA"), Image.fromarray(glass().frames_THWC[0])
    )
    assert np.abs(ours.astype(int) - np.array(theirs.convert("RGB"))).max() <= 1


def test_compose_by_opacity_blend_and_mask() -> None:
    base, white = picture(), blank(32, 32, "white")
    assert same(compose(base, white, opacity=0.0), base)
    assert same(compose(base, white, blend="multiply"), base)
    assert same(compose(base, blank(32, 32, "black"), blend="screen"), base)
    mask = box(32, 32, 0, 0, 16, 32)
    half = compose(base, white, mask=mask).frames_THWC[0]
    assert (half[:, :16] == 255).all()
    assert np.array_equal(half[:, 16:], base.frames_THWC[0, :, 16:])
    with pytest.raises(Refused, match="the mask is 8x8, the overlay 32x32"):
        compose(base, white, mask=blank(8, 8, "white"))


def test_compose_beside_the_picture_changes_nothing() -> None:
    assert same(compose(disc(), blank(8, 8, "white"), left=-100), disc())


def test_a_still_becomes_a_clip_under_a_moving_overlay() -> None:
    made = compose(picture(), resize(disc(5), 8, 8))
    assert made.fps == 8.0
    assert made.frames_THWC.shape == (5, 32, 32, 3)


def test_grid_puts_each_clip_into_its_cell() -> None:
    clips = [disc(3), flip(disc(2)), picture()]
    made = grid(clips, columns=2, gap=1)
    assert made.frames_THWC.shape == (3, 67, 67, 3)
    assert np.array_equal(made.frames_THWC[:, 1:33, 1:33], clips[0].frames_THWC)
    assert np.array_equal(made.frames_THWC[2, 1:33, 34:66], clips[1].frames_THWC[-1])
    assert np.array_equal(made.frames_THWC[1, 34:66, 1:33], clips[2].frames_THWC[0])
    assert not made.frames_THWC[:, 34:66, 34:66].any()
    with pytest.raises(Refused, match="1 captions for 3 clips"):
        grid(clips, captions=["one"])


def test_a_contact_sheet_runs_from_the_first_frame_to_the_last() -> None:
    clip = disc(9)
    made = contact_sheet(clip, count=3, columns=3, times=False, gap=0).frames_THWC[0]
    for cell, index in enumerate((0, 4, 8)):
        assert np.array_equal(made[:, 32 * cell : 32 * cell + 32], clip.frames_THWC[index])
    assert contact_sheet(disc(2), count=12).frames_THWC.shape[0] == 1
    with pytest.raises(Refused, match=r"video\.hold"):
        contact_sheet(picture())


def test_text_is_drawn_where_it_is_asked_for() -> None:
    ground = blank(120, 60, "navy")
    drawn = write_text(ground, "Hello", position="bottom right", size=16, margin=2).frames_THWC[0]
    ink_y, ink_x = np.nonzero((drawn != ground.frames_THWC[0]).any(axis=-1))
    assert ink_x.min() > 60
    assert ink_y.min() > 30
    assert (drawn == 255).all(axis=-1).any()
    assert same(write_text(ground, "Hello", opacity=0.0), ground)
    assert same(write_text(ground, ""), ground)


def test_an_outline_surrounds_the_letters() -> None:
    drawn = write_text(blank(60, 40, "navy"), "O", size=30, outline=2, outline_colour="red", margin=0)
    reds = (drawn.frames_THWC[0] == (255, 0, 0)).all(axis=-1)
    assert reds.sum() > 50


def test_a_font_that_is_none_is_refused(tmp_path) -> None:
    font = tmp_path / "broken.ttf"
    font.write_bytes(b"not a font")
    with pytest.raises(Refused, match=r"broken\.ttf cannot be read"):
        write_text(picture(), "x", font=font)


def test_letters_that_the_font_lacks_are_refused() -> None:
    with pytest.raises(Refused, match="lacks Ä ½; give another as 'font'"):
        write_text(picture(), "Ärger\n1½ Ä")
    printable = "".join(map(chr, range(32, 127)))
    assert not same(write_text(picture(), printable), picture())


def test_a_digit_of_the_model_enlarged_and_reduced_is_itself(engine: Engine) -> None:
    made = engine.generate("digits", Request(prompt="a seven", seed=7)).picture
    digit = Clip(frames_THWC=made.frames_THWC)
    assert same(resize(by_filter(digit, 16, "nearest"), 8, 8, filter="box"), digit)
