"""Functions by their address: equal as values, imported when called, and all of ours exist."""

from __future__ import annotations

from importlib import import_module

import pytest

from restrike.cards import registry
from restrike.cards.deferred import Deferred


def test_it_calls_the_function_with_its_own_arguments_last() -> None:
    assert Deferred("math:pow", (3,))(2) == 8


def test_equal_addresses_are_equal_values() -> None:
    assert Deferred("math:pow", (3,)) == Deferred("math:pow", (3,))
    assert Deferred("math:pow") != Deferred("math:sqrt")
    assert len({Deferred("math:pow"), Deferred("math:pow")}) == 1


def test_nothing_is_imported_before_the_call() -> None:
    absent = Deferred("restrike.nowhere:nothing")
    with pytest.raises(ImportError):
        absent()


@pytest.mark.parametrize("name", ["digits", "shapes"])
def test_every_address_of_an_embedded_card_exists(name: str) -> None:
    card = registry.card(name)
    for call in (*(part.load for part in card.components), *(loop.build for loop in card.loops)):
        assert isinstance(call, Deferred)
        module, _, function = call.target.partition(":")
        assert callable(getattr(import_module(module), function))
