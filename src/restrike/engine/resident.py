"""A card that was loaded: its checkpoint, its placement, and its components, built on first use.

Components are shared by all requests and nothing of a request is ever written on them.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import torch

from restrike.cards.card import Component, LoopSpec, ModelCard
from restrike.cards.checkpoint import Checkpoint, Location
from restrike.cards.identity import WeightIdentity, combined, identities_of, identity_of
from restrike.cards.placement import Placement
from restrike.errors import NotFound, Refused

INDEX = "model_index.json"


class ResidentCard:
    """One card on one placement; components and loops are built once, when first asked for."""

    def __init__(self, card: ModelCard, placement: Placement, *, trust_remote_code: bool = False) -> None:
        if card.location is None:
            raise Refused(
                f"card '{card.name}' needs weights: give a checkpoint folder or a hub id as the card, "
                f"for example --card ./folder"
            )
        self.card = card
        self.placement = placement
        self.device = torch.device(placement.device)
        self._location: Location = card.location
        self._code_trusted = trust_remote_code
        self._components: dict[str, Any] = {}
        self._loops: dict[str, Any] = {}
        self._identities: dict[str, WeightIdentity | None] = {}
        self._lock = threading.RLock()
        self.turn = threading.RLock()
        """Held by whoever runs the components; see `PictureRun`."""

    @property
    def address(self) -> str:
        """What finds the card again anywhere: its hub id or its name; never the path of a folder."""
        return self.card.address

    def checkpoint(self, names: tuple[str, ...]) -> Checkpoint:
        """The folder with the files of these components; brings them to this machine if needed."""
        files = [pattern for name in names for pattern in self.card.component(name).files]
        found = self._location.resolve((INDEX, *dict.fromkeys(files)))
        return replace(found, code_trusted=self._code_trusted)

    def loop(self, spec: LoopSpec) -> Any:
        """The loop of the card, built from its checkpoint."""
        with self._lock:
            if spec.name not in self._loops:
                self._loops[spec.name] = spec.build(self.checkpoint(spec.components))
            return self._loops[spec.name]

    def component(self, name: str) -> Any:
        """A component by name, built at the first call.

        Raises:
            NotFound: the checkpoint does not have it.
        """
        with self._lock:
            if name not in self._components:
                declared = self.card.component(name)
                checkpoint = self.checkpoint((name,))
                if not checkpoint.files(declared.files):
                    wanted = ", ".join(declared.files)
                    raise NotFound(f"checkpoint '{checkpoint.name}' has no component '{name}' ({wanted})")
                self._components[name] = self._built(declared, checkpoint)
            return self._components[name]

    def _built(self, declared: Component, checkpoint: Checkpoint) -> Any:
        """The component and, noted beside it, the identity of the very bytes that it was made of."""
        before = identity_of(declared, checkpoint)
        # A step may ask for a component first; weights that are made in inference mode stay so.
        with torch.inference_mode(False):
            made = declared.load(checkpoint, self.placement)
        if identity_of(declared, checkpoint) != before:
            raise Refused(
                f"checkpoint '{checkpoint.name}': the files of component '{declared.name}' changed while it "
                "was loaded; try again when they are complete"
            )
        self._identities[declared.name] = before
        return made

    def loaded(self) -> tuple[str, ...]:
        """The components that exist, in the order in which they were built."""
        return tuple(self._components)

    def weights(self, spec: LoopSpec) -> str:
        """Identity of all weights that a loop can read, as one digest; of what is loaded, as it was then."""
        with self._lock:
            unknown = [self.card.component(n) for n in spec.components if n not in self._identities]
            if unknown:  # resolving a location may ask the hub: not again for each picture
                checkpoint = self.checkpoint(tuple(part.name for part in unknown))
                self._identities |= identities_of(unknown, checkpoint)
            identities = [self._identities[name] for name in spec.components]
            return combined(identity for identity in identities if identity is not None)
