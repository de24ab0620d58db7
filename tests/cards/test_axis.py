from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restrike.cards.card import Axis


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    """Axes that allow at least one size."""
    step = draw(st.integers(1, 64))
    offset = draw(st.integers(0, step - 1))
    least = draw(st.integers(1, 64))
    allowed = least + (offset - least) % step + step * draw(st.integers(0, 20))
    return Axis(minimum=least, maximum=allowed + draw(st.integers(0, 40)), step=step, offset=offset)


@given(axis=axes(), value=st.integers())
def test_the_nearest_size_is_allowed_and_none_is_nearer(axis: Axis, value: int) -> None:
    nearest = axis.nearest(value)
    assert axis.accepts(nearest)
    allowed = [size for size in range(axis.minimum, axis.maximum + 1) if axis.accepts(size)]
    assert abs(nearest - value) == min(abs(size - value) for size in allowed)


@given(axis=axes(), value=st.integers())
def test_the_nearest_size_of_an_allowed_size_is_itself(axis: Axis, value: int) -> None:
    assert (axis.nearest(value) == value) == axis.accepts(value)


@given(axis=axes(), digits=st.integers(300, 400))
def test_no_size_is_too_large_to_be_answered(axis: Axis, digits: int) -> None:
    assert axis.nearest(10**digits) <= axis.maximum


def test_an_axis_reads_as_a_person_would_say_it() -> None:
    assert str(Axis(minimum=8, maximum=8)) == "8"
    assert str(Axis(minimum=1, maximum=9)) == "1 to 9"
    assert str(Axis(minimum=1, maximum=17, step=4, offset=1)) == "1, 5, 9, 13 or 17"
    assert str(Axis(minimum=10, maximum=40, step=16)) == "16 or 32"
    assert str(Axis(minimum=16, maximum=128, step=16)) == "multiples of 16 from 16 to 128"
    assert str(Axis(minimum=1, maximum=81, step=4, offset=1)) == "4k + 1 from 1 to 81"
