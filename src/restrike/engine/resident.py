"""A card that was loaded: its checkpoint, its placement, and its components, brought by residency when used.

Components are shared by all requests and nothing of a request is ever written on them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import torch

from restrike.cards.card import Component, LoopSpec, ModelCard
from restrike.cards.checkpoint import Checkpoint, Location
from restrike.cards.identity import WeightIdentity, identities_of, identity_of
from restrike.cards.placement import Placement
from restrike.engine.capture.choice import capturer_for
from restrike.engine.compiled.table import CompiledCalls
from restrike.engine.memory.budget import Share
from restrike.engine.memory.expected import expected_bytes
from restrike.engine.memory.parts import Part
from restrike.engine.memory.peaks import Peaks, Phase
from restrike.engine.memory.residency import Residency, residency_on
from restrike.engine.memory.working import working
from restrike.engine.weights.held import REPLACED, CardWeights
from restrike.errors import NotFound, Refused, Unknown

INDEX, GRAPHS = "model_index.json", "captured graphs"


class ResidentCard:
    """One card on one placement; components and loops are built once, when first asked for."""

    def __init__(
        self,
        card: ModelCard,
        placement: Placement,
        residency: Residency | None = None,
        *,
        trust_remote_code: bool = False,
        capture: str = "auto",
    ) -> None:
        if card.location is None:
            raise Refused(
                f"card '{card.name}' needs weights: give a checkpoint folder or a hub id as the card, "
                f"for example --card ./folder"
            )
        self.card = card
        self.placement = placement
        self.device = torch.device(placement.device)
        self.residency = residency or residency_on(self.device)
        self.turn: AbstractContextManager[Any] = self.residency.turn
        """The device's turn: held by whoever runs components; what is used in it stays until it ends."""
        self.capturer = capturer_for(
            capture,
            self.device,
            Share(self.residency.budget, GRAPHS),
            lambda name: self.held.version_of(name),
        )
        """Keeps graphs of the components' steps; told before tensors move or go."""
        self.compiled = CompiledCalls(card=card.name)
        """Keeps what compiled code may answer for; told before tensors move or go."""
        self.peaks = Peaks()
        self.held = CardWeights(self, evict=self._rewritten)
        """Its weights as they are now: adapters and versions."""
        self._location: Location = card.location
        self._code_trusted = trust_remote_code
        self._parts = {declared.name: self._part(declared) for declared in card.components}
        self._loops: dict[str, Any] = {}
        self._identities: dict[str, WeightIdentity | None] = {}
        self._begun_s: list[float] = []
        # Not the card's lock, which is held while files are fetched and read: the door must not wait for it.
        self._requests = threading.Lock()
        self._lock = threading.RLock()

    @property
    def address(self) -> str:
        """What finds the card again anywhere: its hub id or its name; never the path of a folder."""
        return self.card.address

    def checkpoint(self, names: tuple[str, ...]) -> Checkpoint:
        """The folder with the files of these components; brings them to this machine if needed."""
        found = self._location.resolve((INDEX, *self._files(names)))
        return replace(found, code_trusted=self._code_trusted)

    def _files(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file for name in names for file in self.card.component(name).files))

    def loop(self, spec: LoopSpec) -> Any:
        """The loop of the card, built from its checkpoint."""
        with self._lock:
            if spec.name not in self._loops:
                self._loops[spec.name] = spec.build(self.checkpoint(spec.components))
            return self._loops[spec.name]

    def component(self, name: str) -> Any:
        """A component by name, on the device; built when it is first asked for, or again after an eviction.

        Raises:
            NotFound: the checkpoint does not have it.
            Asleep: it was put to sleep.
            Shortfall: there is no room for it beside what is in use.
        """
        return self.residency.use(self._parts[name])

    def sleep(self, *names: str) -> None:
        """Free the device of these components, or of all; to use one before it is woken is refused.

        Raises:
            Unknown: no such component.
            Refused: one is held by a running request.
        """
        self.residency.sleep(self.parts(*names))

    def wake(self, *names: str) -> None:
        """Bring back what sleeps of these components, or of all, bit for bit; all or nothing.

        Raises:
            Unknown: no such component.
            Shortfall: there is no room for them.
        """
        self.residency.wake(self.parts(*names))

    def changed(self, name: str) -> None:
        """Note that a component's weights are no longer those of its files: it is not dropped from now on."""
        self.residency.altered(self._parts[name], True)

    def restored(self, name: str) -> None:
        """Note that a component's weights are those of its files again."""
        self.residency.altered(self._parts[name], False)

    def parts(self, *names: str) -> tuple[Part, ...]:
        """Components by name, or all, as residency keeps them; raises Unknown when there is no such one."""
        for name in names:
            if name not in self._parts:
                raise Unknown("component", name, self._parts)
        return tuple(self._parts[name] for name in names or self._parts)

    def phase(self, phase: Phase) -> AbstractContextManager[None]:
        """A context for the work of one phase, in a turn of the device."""
        return working(self.residency, self.peaks, phase)

    def loaded(self) -> tuple[str, ...]:
        """The components that exist in memory, in the order in which they were built first."""
        built = [(part.first_s, name) for name, part in self._parts.items() if part.component is not None]
        return tuple(name for _, name in sorted(built))

    def begun(self) -> Callable[[], None]:
        """Note a request that runs; what is returned notes its end, once.

        While it runs, a component that it may have used is not replaced by one of other files.
        """
        began_s = self.residency.clock()
        with self._requests:
            self._begun_s.append(began_s)

        def ended() -> None:
            with self._requests:
                self._begun_s.remove(began_s)

        return ended

    def weights(self, spec: LoopSpec) -> str:
        """Identity of all weights that a loop can read, as one digest, without adapters; see `identities`."""
        return self.held.weights(spec)

    def identities(self, names: tuple[str, ...]) -> tuple[WeightIdentity | None, ...]:
        """Of each component that of its files, as they were when it was loaded; None for a missing one."""
        with self._lock:
            unknown = [self.card.component(name) for name in names if name not in self._identities]
            if unknown:  # resolving a location may ask the hub: not again for each picture
                checkpoint = self.checkpoint(tuple(part.name for part in unknown))
                self._identities |= identities_of(unknown, checkpoint)
            return tuple(self._identities[name] for name in names)

    def _part(self, declared: Component) -> Part:
        part = Part(
            card=self.card.name,
            name=declared.name,
            load=lambda: self._load(declared, part),
            expected=lambda: self._expected(declared),
            moved=lambda reason: self._moved(declared.name, reason),
            rest=lambda: self.held.rest(),
        )
        self.residency.adopt(part)
        return part

    def _moved(self, name: str, reason: str) -> None:
        self.capturer.evict(name, reason)
        self.compiled.release(name)

    def _rewritten(self, name: str, reason: str) -> None:
        self.capturer.evict(name, reason)
        # What was written in place is what compiled code reads; it must not keep what was replaced.
        if reason == REPLACED:
            self.compiled.release(name)

    def _expected(self, declared: Component) -> int:
        if not declared.sized_by_files:
            return 0
        try:
            checkpoint = self._location.present((INDEX, *declared.files))
        except NotFound:
            return 0  # Nothing is known of weights that are elsewhere.
        return expected_bytes(checkpoint.files(declared.files), self.placement.dtype)

    def _load(self, declared: Component, part: Part) -> tuple[Any, float]:
        """The component, and the seconds that building it took, without bringing its files to this machine.

        Noted beside it is the identity of the very bytes that it was made of.
        """
        checkpoint = self.checkpoint((declared.name,))
        if not checkpoint.files(declared.files):
            wanted = ", ".join(declared.files)
            raise NotFound(f"checkpoint '{checkpoint.name}' has no component '{declared.name}' ({wanted})")
        before = identity_of(declared, checkpoint)
        self._same_for_those_who_run(part, before)
        # A step may ask for a component first; weights that are made in inference mode stay so.
        began_s = self.residency.clock()
        with torch.inference_mode(False):
            made = declared.load(checkpoint, self.placement)
        seconds = self.residency.clock() - began_s
        if identity_of(declared, checkpoint) != before:
            raise Refused(
                f"checkpoint '{checkpoint.name}': the files of component '{declared.name}' changed while it "
                "was loaded; try again when they are complete"
            )
        with self._lock:
            self._identities[declared.name] = before
        return made, seconds

    def _same_for_those_who_run(self, part: Part, identity: WeightIdentity) -> None:
        """Refuse other weights than those that a running request has used before they were evicted."""
        used_s = part.used_s
        with self._requests:
            mixed = used_s is not None and any(began_s <= used_s for began_s in self._begun_s)
        if mixed and self._identities[part.name] != identity:
            raise Refused(
                f"the files of {part} changed while requests were running that had used it; run them again"
            )
