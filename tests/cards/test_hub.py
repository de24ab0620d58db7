"""The hub's seam, while the hub cannot be reached."""

from __future__ import annotations

import pytest

from restrike.cards.hub import missing_bytes


def test_what_has_to_be_fetched_is_not_known_while_the_hub_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = pytest.importorskip("huggingface_hub")
    errors = pytest.importorskip("huggingface_hub.errors")
    broken = next(base for base in errors.HfHubHTTPError.__bases__ if not issubclass(base, OSError))

    def unreachable(*_: object, **__: object) -> None:
        raise type("ConnectError", (broken,), {})("Name or service not known")

    monkeypatch.setattr(hub.HfApi, "model_info", unreachable)
    assert missing_bytes("owner/name", None, ("*.safetensors",)) is None
