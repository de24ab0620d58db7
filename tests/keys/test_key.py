"""A key is its encoding: digest, equality, round trip, and the vectors that hold the algebra still."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from restrike.errors import Refused
from restrike.keys import Digest, Key, Ref, Unkeyable, bytes_digest, digest
from restrike.keys.encoding import encode

from .oracle import Adapter, names, values

parts = st.dictionaries(names.filter(lambda name: name not in ("domain", "epoch")), values, max_size=4)


def test_the_digest_is_the_sha256_of_domain_epoch_and_encoding() -> None:
    key = Key("step", "7", {"a": 1})
    assert key.encoding == b"step\x007\x00" + encode({"a": 1})
    assert key.digest.hex == hashlib.sha256(key.encoding).hexdigest()
    assert key.digest == digest("step", "7", {"a": 1})
    assert (key.domain, key.epoch, key.parts) == ("step", "7", {"a": 1})


def test_domain_and_epoch_separate() -> None:
    keys = [Key("a", "1", {}), Key("b", "1", {}), Key("a", "2", {}), Key("a1", "1", {}), Key("a", "11", {})]
    assert len(set(keys)) == len({key.digest for key in keys}) == 5


@given(parts)
@settings(deadline=None)
def test_round_trip(parts: dict[str, Any]) -> None:
    key = Key("step", "1", parts)
    again = Key.decode(key.encoding)
    assert again == key
    assert hash(again) == hash(key)
    assert again.digest == key.digest
    assert not key.diff(again)
    assert Key("step", "1", again.parts) == key


@pytest.mark.parametrize(
    "other", [{"A": 1}, {"b": 1}, {"a": 1, "b": 1}, {"": 1}, {"a": {"a": 1}}, {"a": True}, {}]
)
def test_each_part_counts_by_name_and_value(other: dict[str, Any]) -> None:
    assert Key("step", "1", other) != Key("step", "1", {"a": 1})


def test_equality_is_by_encoding_not_by_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    collision = Digest("0" * 64)
    monkeypatch.setattr(Key, "digest", property(lambda key: collision))
    one, two = Key("step", "1", {"a": 1}), Key("step", "1", {"a": 2})
    assert one.digest == two.digest
    assert one != two


def test_a_key_is_read_once() -> None:
    items, array = [1], np.zeros(2)
    key = Key("step", "1", {"items": items, "array": array})
    before = key.encoding
    items.append(2)
    array[0] = 1
    assert key.encoding == before
    assert key != Key("step", "1", {"items": items, "array": array})
    key.parts["items"] = "changed"
    assert key.encoding == before
    with pytest.raises(AttributeError):
        key.encoding = b""  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("label", ["", "a\0b", "a b", "é", "a\n", "x" * 201, 1, None, b"a"])
def test_domain_and_epoch_are_visible_ascii(label: Any) -> None:
    with pytest.raises(Unkeyable, match=r"^domain: "):
        Key(label, "1", {})
    with pytest.raises(Unkeyable, match=r"^epoch: "):
        digest("step", label, 1)


@pytest.mark.parametrize("name", ["domain", "epoch"])
def test_the_keys_own_names_are_no_parts(name: str) -> None:
    with pytest.raises(Unkeyable, match=name):
        Key("step", "1", {name: 1})


@pytest.mark.parametrize(
    "torn",
    [
        b"",
        b"step",
        b"step\0" + b"1",
        b"\0\0" + encode({}),
        b"st\xffp\x001\0" + encode({}),
        b"s\x001\0" + encode([]),
    ],
)
def test_a_torn_key_is_refused(torn: bytes) -> None:
    with pytest.raises(Refused, match="not an encoded key"):
        Key.decode(torn)


@given(parts, st.integers(0, 10**6), st.integers(1, 255))
@settings(deadline=None)
def test_a_changed_byte_never_reads_as_the_same_key(parts: dict[str, Any], at: int, flip: int) -> None:
    key = Key("step", "1", parts)
    torn = bytearray(key.encoding)
    torn[at % len(torn)] ^= flip
    with contextlib.suppress(Refused):
        assert Key.decode(bytes(torn)) != key


@pytest.mark.parametrize(
    "text", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, " " + "0" * 63, "0" * 64 + "\n"]
)
def test_a_digest_is_64_lowercase_digits(text: str) -> None:
    with pytest.raises(Refused, match="64 lowercase"):
        Digest(text)


def test_a_file_cannot_pass_for_a_value() -> None:
    value = digest("value", "1", "x")
    forged = bytes_digest(b"value\x001\0" + encode("x"))
    assert forged == value
    assert encode(Ref(forged, of="file")) != encode(Ref(value))


# A change here makes every stored result, cell and capture of every user cold: bump an epoch instead.
VECTORS: list[tuple[Any, str, str]] = [
    (None, "f6", "188488dc8ff061325e3b23d05e0b94c8353e582198765f5662786ff5f8d02cc1"),
    (True, "f5", "8c3c159c3eb03ce071cf06751b72921d29bf1ee139df0e82e3880d1954770169"),
    (1, "01", "113580f5a2ce3b7691698e6eedb7286e9853145f98a8a004b6f2c5d747cc68c6"),
    (-1, "20", "c23078b6cf01c764def68294747b237d6cf42ef57549a072b939eedaaf5c9dda"),
    (2**64, "c249010000000000000000", "24f561f7bc4fd580dbac549b6684869b3e129ae5ea4eaa456a99047389e3899c"),
    (1.0, "f93c00", "b80456d1f6a83104d7188992e49ae2a3129f72b073ee0135e687ae04f4d29bcb"),
    (-0.0, "f98000", "4c77b05fae0ab18647183a3c3ba8caaff68fa0b9aaec0e6e0c510e4f0f3030cd"),
    (1.1, "fb3ff199999999999a", "d338e06fa96a379f9cac3cb441adb30f2cef8e5c1bcf8d7ed74145cc687ea60a"),
    ("1", "6131", "9d272e15589e0a7e611f051bbc3245359d53aea6dd3d0efb03753c4d8eaae2aa"),
    ("\u00e9", "62c3a9", "4b74a55f57317d45f3fcfcdea2dffe27fef8386f38f048844b1bac030879ba53"),
    ("e\u0301", "6365cc81", "845270c8e7570e189f24701008b768efdd328fd02020ef429b4872d11e257c36"),
    (b"1", "4131", "e9e9ec0d3dda576d9aaca8e276a8e76331e01af2791a52bdaf692798bdb1ba5e"),
    ([1], "8101", "3eef84ca8efe6de8f02acf166871f3d56596f0171234ce46c3358a33f31b7e8b"),
    ((1,), "da525354018101", "e31f2f903b7528556794003588bd88a39940de415a8862772a1f843285f0df9c"),
    (
        {"b": 1, "aa": 2, "a": 3},
        "a361610361620162616102",
        "98dac92f7f603a4dc87229d12d499acae8ff6b852f7750945c819836bd8f9c3e",
    ),
    (
        Ref(Digest("1" * 64)),
        "da52535402826576616c756558201111111111111111111111111111111111111111111111111111111111111111",
        "3eeb00ba8c90d14782ddeb7759ef1a94105682d96c90e435534dda932938cc28",
    ),
    (
        Ref(Digest("1" * 64), of="file"),
        "da52535402826466696c6558201111111111111111111111111111111111111111111111111111111111111111",
        "19027255c0d86849f51d8e52a70c0306b471733e6cc23fcf0e92bddb8be11f23",
    ),
    (
        np.arange(3, dtype="<i2"),
        "da5253540384656e756d7079633c69328103582090c2698921ca9fd02950be353f721888760e33ab5095a21e50f1e4360b6de1a0",
        "45bca2aab444da4efa7adc696b2511cc9f221440c71efe8fdff8c436e784d874",
    ),
    (
        torch.tensor([[1.5]], dtype=torch.bfloat16),
        "da525354038465746f7263686862666c6f617431368201015820a0c1c13894ba37fc4262de301cecff957435587f82ffc8683729588ef0d86339",
        "904ffb2970ffe95e978811e707559c828a35614eaaa5330e19f656d0acd37e4c",
    ),
    (
        Adapter(strength=0.5),
        "da52535404826761646170746572a168737472656e677468f93800",
        "f91b1e3aef2f63b8cf57fb098607172708191ffa61555415ddf6db6333270b02",
    ),
]


@pytest.mark.parametrize(("value", "encoding", "sha256"), VECTORS, ids=lambda value: type(value).__name__)
def test_the_algebra_has_not_moved(value: Any, encoding: str, sha256: str) -> None:
    assert encode(value).hex() == encoding
    assert digest("golden", "1", value).hex == sha256
