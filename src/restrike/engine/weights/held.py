"""The weights of one resident card as they are now: what is fused into them, and which version each part has.

It changes them only while nobody reads them, always from the pristine bytes, and tells whoever keeps what was
made of the old ones. It knows no other card.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import nn

from restrike.cards.adapters import Adapter
from restrike.cards.card import LoopSpec
from restrike.cards.identity import WeightIdentity, combined
from restrike.engine.weights.binding import Addition, bind
from restrike.engine.weights.incoming import Source, incoming
from restrike.engine.weights.leases import Leases, Stack, stack_of
from restrike.engine.weights.lora import updates_of
from restrike.engine.weights.overlay import Overlay
from restrike.engine.weights.sync import Checked, checked, written
from restrike.errors import Refused, Unknown

if TYPE_CHECKING:
    from restrike.engine.resident import ResidentCard

Evict = Callable[[str, str], None]
"""Drops what was captured with a component, for a reason."""

ADAPTERS, REPLACED = "adapters changed", "weights replaced"


@dataclass(frozen=True, kw_only=True)
class _Synced:
    version: int
    content: str


class CardWeights:
    """Adapters and versions of one card; every method may be called from any thread."""

    def __init__(self, resident: ResidentCard, evict: Evict) -> None:
        self._resident = resident
        self._evict = evict
        self.leases = Leases(resident.card.name)
        self._overlay = Overlay(resident.component)
        self._fused: Stack | None = ()
        """None after a failure that left something fused, which no request may take for what it wants."""
        self._bound: dict[str, Stack] = {}
        self._synced: dict[str, _Synced] = {}

    # Adapters.

    def settle(self, spec: LoopSpec, adapters: tuple[Adapter, ...]) -> None:
        """Fuse what a lease was taken for, unless it is fused already; for its holder, before its first step.

        An opaque loop puts adapters into modules of the request's own; the card's weights stay as they are.

        Raises:
            Refused: an adapter was changed, is no LoRA, or does not bind whole; what is fused stays.
        """
        stack = () if spec.opaque else stack_of(adapters)
        with self._resident.turn:
            if stack != self._fused:
                self._become(stack, [self._bind(spec, each) for each in adapters])

    def rest(self) -> None:
        """Undo what is fused if no request reads the weights; the next one that wants it fuses it anew."""
        with self._resident.turn:
            if self._fused != () and self.leases.idle:
                self._become((), [])

    def _bind(self, spec: LoopSpec, adapter: Adapter) -> tuple[Addition, ...]:
        updates = updates_of(adapter, self._resident.card)
        return bind(adapter, updates, spec.components, self._resident.component)

    def _become(self, stack: Stack, parts: list[tuple[Addition, ...]]) -> None:
        """Fuse these, and nothing else; when it fails, the weights are the base, or become it next time."""
        additions = [addition for each in parts for addition in each]
        before = self._overlay.components
        touched = dict.fromkeys((*before, *(part.component for part in additions)))
        for component in touched:  # before the first byte, so that none is dropped half way
            self._resident.changed(component)
            self._evict(component, ADAPTERS)
        self._fused, self._bound = None, {}
        try:
            self._overlay.become(additions)
        finally:
            if not self._overlay.components:
                self._fused = ()
            for component in touched:
                self._note(component)
        self._fused = stack
        for identity, each in zip(stack, parts, strict=True):
            for component in dict.fromkeys(part.component for part in each):
                self._bound[component] = (*self._bound.get(component, ()), identity)

    def _note(self, component: str) -> None:
        if component not in self._overlay.components and component not in self._synced:
            self._resident.restored(component)

    # Versions.

    def version_of(self, component: str) -> WeightIdentity:
        """What the weights of a component are now; raises Unknown for one that the card does not have."""
        self._check(component)
        (found,) = self._resident.identities((component,))
        base = found or WeightIdentity(component=component, base="")
        return replace(self.now(base), adapters=self._bound.get(component, ()))

    def weights(self, spec: LoopSpec) -> str:
        """Identity of all weights that a loop can read, as one digest, without any adapter."""
        found = self._resident.identities(spec.components)
        return combined(self.now(part) for part in found if part is not None)

    def versions(self, spec: LoopSpec) -> dict[str, int]:
        """The version of each component of a loop that was synced."""
        return {name: self._synced[name].version for name in spec.components if name in self._synced}

    def now(self, base: WeightIdentity) -> WeightIdentity:
        """What became of a component with these files: it was synced, or it is as it was loaded."""
        synced = self._synced.get(base.component)
        return base if synced is None else replace(base, base=synced.content, version=synced.version)

    def sync(self, component: str, source: Source, version: int) -> WeightIdentity:
        """Replace the weights of a component when the last request that reads them has ended.

        Returns what they are now; a repeated sync of the same version and tensors changes nothing.

        Raises:
            Unknown: the card has no such component.
            NotFound, Refused: the tensors or files are not those of the component, the version is taken, or
                this thread drives a request on the card. The old weights and version keep serving.
        """
        self._check(component)
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise Refused(f"version {version!r} of a sync is not a whole number from 1")
        what = f"sync of '{component}' of card '{self._resident.card.name}'"
        with ExitStack() as files:
            new = checked(component, self._module(component), incoming(source, files))
            with self.leases.drained(what), self._resident.turn:
                self._take(component, new, version)
        return self.version_of(component)

    def _take(self, component: str, new: Checked, version: int) -> None:
        now = self._synced.get(component)
        if now is not None and now.version == version:
            if now.content == new.content:
                return
            raise Refused(f"'{component}' serves version {version} already, with other weights; count on")
        self._become((), [])
        self._resident.changed(component)
        try:
            if written(self._module(component), new):
                self._evict(component, REPLACED)
            self._synced[component] = _Synced(version=version, content=new.content)
        finally:
            self._note(component)

    def _module(self, component: str) -> nn.Module:
        module = self._resident.component(component)
        if not isinstance(module, nn.Module):
            raise Refused(
                f"component '{component}' is a {type(module).__name__}; only a module can be synced"
            )
        return module

    def _check(self, component: str) -> None:
        exists = [part.name for part in self._resident.card.components]
        if component not in exists:
            raise Unknown("component", component, exists)
