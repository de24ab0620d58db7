"""Adopts the cells of one card: found, verified, tried, bound, proved, measured; then armed, all at once.

A fault costs its own cell; one that nobody foresaw arms none at all. Eager serves until the last moment.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from torch import nn

from restrike.cards.compile import Compile
from restrike.endpoints.warm import WarmRow
from restrike.engine.compiled.call import CompiledCall, Declared, identity_of
from restrike.engine.compiled.table import Bound, form_of
from restrike.engine.resident import ResidentCard
from restrike.errors import NotFound, Refused, RestrikeError, Shortfall
from restrike.keys import Digest
from restrike.mint import targets as authority
from restrike.mint.adoption.binding import bind_cell, check_constants
from restrike.mint.adoption.discovery import Discovery, Place, Wanted, bring, discover, find_by_tracing
from restrike.mint.adoption.refusal import QUARANTINED, AdoptionRefusal, AdoptionRefused
from restrike.mint.adoption.signposts import Signposts, sizes_key
from restrike.mint.adoption.trial import tried
from restrike.mint.adoption.tried import Tried
from restrike.mint.cell.facts import Ingress, bounds
from restrike.mint.cell.manifest import Proof
from restrike.mint.cell.refusal import CellRefused
from restrike.mint.plan import warm_plan
from restrike.mint.proving import prove
from restrike.mint.refusals import MintRefused, OutOfTolerance, Subject
from restrike.mint.shortfalls import placed
from restrike.mint.warm import Observed, observe
from restrike.mint.wrapped import constants_of


@dataclass(frozen=True, kw_only=True)
class Adopted:
    """What became of one card's cells.

    `armed` has the proof of each call by its label, `missing` those without a cell, `refused` tells of each
    that was found and not armed why, `rejected` counts the store's other cells by reason, `seconds` is what
    all of it took.
    """

    armed: Mapping[str, Proof]
    missing: tuple[Wanted, ...]
    refused: tuple[tuple[str, str], ...]
    rejected: dict[str, int]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class _Candidate:
    wanted: Wanted
    key: Digest


@dataclass(kw_only=True)
class Adoption:
    """One adoption of one card."""

    resident: ResidentCard
    place: Place
    _refused: list[tuple[str, str]] = field(default_factory=list, init=False)
    _missing: list[Wanted] = field(default_factory=list, init=False)
    _seen: dict[str, tuple[Observed, ...]] = field(default_factory=dict, init=False)
    _proofs: dict[Hashable, Proof] = field(default_factory=dict, init=False)

    @property
    def _subject(self) -> Subject:
        return Subject(card=self.resident.card.name, recipe="aot")

    def adopt(self) -> Adopted:
        """Arm every cell of the card that stands all its checks.

        Raises:
            MintRefused: the card declares nothing to compile, or contradicts itself.
        """
        began = time.perf_counter()
        targets = authority.resolve_targets(self.resident.card, "aot")
        declared = self.resident.card.compile
        assert declared is not None
        rows = self._rows(declared)
        found = discover(self.resident, declared, targets, rows, self.place)
        self._trace_unknown(found)
        bound = self._bind_all(self._candidates(found))
        self.resident.compiled.arm(bound)
        return Adopted(
            armed={each.call.label: self._proofs[each.call.id] for each in bound},
            missing=tuple(self._missing),
            refused=tuple(self._refused),
            rejected=_rejected(found),
            seconds=time.perf_counter() - began,
        )

    def _rows(self, declared: Compile) -> tuple[WarmRow, ...]:
        """The card's warm plan, and the sizes that somebody minted beside it."""
        sign = sizes_key(self.resident, self.place.host.target)
        names = [shape.name for shape in declared.shapes]
        beside = Signposts(self.place.store.root).sizes(sign)
        return warm_plan(self.resident.card, self._subject, tuple(dict.fromkeys((*names, *beside))))

    def _trace_unknown(self, found: Discovery) -> None:
        """Trace the calls that no signpost tells of, as long as there is any cell that could be theirs."""
        elsewhere = self.place.tier is not None and self._tier_has_any()
        for row in {each.row.shape.name: each.row for each in found.unknown()}.values():
            calls = [each for each in found.unknown() if each.row is row]
            # A call at its full size is dear, and most cells are another model's.
            if elsewhere or any(self._could_be(key, each) for key in found.unclaimed() for each in calls):
                self._trace(calls, row)

    def _could_be(self, key: Digest, wanted: Wanted) -> bool:
        """Whether a cell takes what the call could be given, and needs weights that its component has."""
        try:
            facts = self.place.store.look(key)[1].facts
            if not {spec.name for spec in facts.ingress.tensors} <= set(wanted.target.ingress):
                return False
            with self.resident.turn:
                weights = constants_of(self._module(wanted.target.component))
                check_constants({spec.name: spec for spec in facts.constants}, weights)
        except RestrikeError:
            return False
        return True

    def _tier_has_any(self) -> bool:
        assert self.place.tier is not None
        try:
            return bool(self.place.tier.keys())
        except RestrikeError as error:
            self._refuse("second tier", AdoptionRefusal.UNREACHABLE, error.message)
            return False

    def _trace(self, calls: Sequence[Wanted], row: WarmRow) -> None:
        with self._told(row.shape.name), self.resident.turn:
            find_by_tracing(calls, self._observed(row, calls), self.resident, self.place)

    def _observed(self, row: WarmRow, calls: Sequence[Wanted]) -> tuple[Observed, ...]:
        """The calls of a row, seen once by running its first steps eagerly."""
        if row.shape.name not in self._seen:
            targets = tuple({each.target.component: each.target for each in calls}.values())
            self._seen[row.shape.name] = observe(self.resident, (row,), targets, self._subject)
        return self._seen[row.shape.name]

    def _candidates(self, found: Discovery) -> list[_Candidate]:
        """The cell of each call, by the first recipe that has one; calls without any are missing."""
        candidates: list[_Candidate] = []
        calls: dict[str, list[Wanted]] = {}
        for each in found.wanted:
            calls.setdefault(each.label, []).append(each)
        for label, recipes in calls.items():
            here: list[_Candidate] = []
            for wanted in recipes:
                keys = () if here else wanted.keys or ()
                here += [_Candidate(wanted=wanted, key=key) for key in keys if self._is_here(label, key)]
            candidates += here
            if not here and any(wanted.keys != () for wanted in recipes):
                self._missing.append(recipes[0])
        return candidates

    def _is_here(self, label: str, key: Digest) -> bool:
        reason = bring(key, self.place)
        if reason is not None and reason != AdoptionRefusal.NO_CELL:
            self._refuse(label, reason, f"key {key.short}")
        return reason is None

    def _bind_all(self, candidates: Sequence[_Candidate]) -> list[Bound]:
        armed = {(call.label, call.key) for call in self.resident.compiled.armed}
        found: list[Bound] = []
        for each in candidates:
            if (each.wanted.label, each.key.hex) not in armed:
                with self._told(each.wanted.label, each.key):
                    found.append(self._proved(each, self._try(each)))
        return found

    def _try(self, candidate: _Candidate) -> Ingress:
        """Verify a cell, and have one that is new to this machine run once where it can hurt nobody."""
        record = Tried(self.place.store.root)
        with self.place.store.open(candidate.key, self.place.host) as cell:
            ingress = cell.manifest.facts.ingress
            if record.has(cell.header):
                return ingress
            if candidate.wanted.recipe == "dynamo":
                raise AdoptionRefused(
                    AdoptionRefusal.MADE_ELSEWHERE, "torch.compile's bundles serve where they were made"
                )
            with TemporaryDirectory(prefix="restrike-trial-") as scratch:
                members = Path(scratch) / "members"
                cell.unpack(members)
                tried(members, cell.header.facts.target.kind, cell.manifest, Path(scratch))
            record.note(cell.header)
            return ingress

    def _proved(self, candidate: _Candidate, ingress: Ingress) -> Bound:
        """The cell bound to the card's weights, equal to eager within the card's tolerance, and faster."""
        with self.resident.turn:
            seen = self._matching(candidate, ingress)
            module = self._module(seen.target.component)
            bound = self.resident.compiled.bind(self._call(candidate, seen), module)
            self._proofs[bound.call.id] = self._prove(candidate, bound, module, seen)
            return bound

    def _prove(self, candidate: _Candidate, bound: Bound, module: nn.Module, seen: Observed) -> Proof:
        declared = self.resident.card.compile
        assert declared is not None
        tolerance = declared.tolerance_in(self.resident.placement.dtype)
        try:
            proof = prove(bound.run, module, seen, tolerance, self._subject)
        except OutOfTolerance as error:
            self._led_astray(candidate, seen)
            raise AdoptionRefused(AdoptionRefusal.OUT_OF_TOLERANCE, error.reason) from error
        if proof.cell_s >= proof.eager_s:
            raise AdoptionRefused(
                AdoptionRefusal.NOT_FASTER,
                f"{proof.cell_s * 1000:.3g} ms, eager {proof.eager_s * 1000:.3g} ms",
            )
        return proof

    def _matching(self, candidate: _Candidate, ingress: Ingress) -> Observed:
        """The observed call that a cell was made for; raises AdoptionRefused when it is none of them."""
        wanted = candidate.wanted
        rows = self._observed(wanted.row, [wanted])
        own = [each for each in rows if each.target.component == wanted.target.component]
        for each in own:
            if each.ingress == ingress:
                return each
        Signposts(self.place.store.root).remove(wanted.sign)
        raise AdoptionRefused(AdoptionRefusal.OTHER_INGRESS, "the card calls with other tensors by now")

    def _led_astray(self, candidate: _Candidate, seen: Observed) -> None:
        """Raise AdoptionRefused when the cell is good and only the signpost to it was wrong."""
        calls = [replace(candidate.wanted)]
        find_by_tracing(calls, [seen], self.resident, self.place)
        if candidate.key not in (calls[0].keys or ()):
            raise AdoptionRefused(AdoptionRefusal.ANOTHER_CALL, "a signpost led to it, and is mended")

    def _module(self, component: str) -> nn.Module:
        module = self.resident.component(component)
        try:
            form_of(module)
        except Refused as error:
            raise AdoptionRefused(AdoptionRefusal.CODE_AROUND, error.message) from error
        return module

    def _call(self, candidate: _Candidate, seen: Observed) -> CompiledCall:
        place, wanted, key = self.place, candidate.wanted, candidate.key
        return CompiledCall(
            component=wanted.target.component,
            call=identity_of(seen.call),
            inputs=_declared(seen.ingress),
            key=key.hex,
            label=wanted.label,
            bind=lambda module: bind_cell(place, key, wanted, seen, module),
            failed=lambda reason: _set_aside(place, key, reason),
        )

    def _refuse(self, label: str, reason: str, detail: str) -> None:
        self._refused.append((label, str(reason)))
        self.resident.compiled.refused(label, str(reason), detail)

    @contextmanager
    def _told(self, label: str, key: Digest | None = None) -> Iterator[None]:
        """Note what is wrong with one cell; what nobody foresaw is raised, and nothing is armed."""
        try:
            yield
        except CellRefused as error:
            self._refuse(label, error.reason, error.detail)
        except AdoptionRefused as error:
            self._refuse(label, error.reason, error.detail)
            if key is not None and error.reason in QUARANTINED:
                self.place.store.quarantine(key, error.reason, error.detail)
        except NotFound as error:
            self._refuse(label, AdoptionRefusal.NO_CELL, error.message)
        except Shortfall as error:
            self._refuse(label, AdoptionRefusal.NO_ROOM, error.message)
        except MintRefused as error:
            self._refuse(label, AdoptionRefusal.FORWARD_DIES, error.reason)
        except RestrikeError as error:
            self._refuse(label, AdoptionRefusal.FAILED, error.message)
        except Exception as error:
            failure = placed(error)
            if isinstance(failure, Shortfall):
                self._refuse(label, AdoptionRefusal.NO_ROOM, failure.message)
                return
            if key is not None:  # so that it stands in the way of the others this once
                self.place.store.quarantine(key, AdoptionRefusal.FAILED, failure.message)
            raise AdoptionRefused(AdoptionRefusal.FAILED, f"{label}: {failure.message}") from error


def _set_aside(place: Place, key: Digest, reason: str) -> None:
    place.store.quarantine(key, AdoptionRefusal.FAILED, reason)


def _declared(ingress: Ingress) -> tuple[Declared, ...]:
    """What a cell takes, as the engine compares it."""
    import torch

    return tuple(
        Declared(name=spec.name, sizes=tuple(map(bounds, spec.shape)), dtype=getattr(torch, spec.dtype))
        for spec in ingress.tensors
    )


def _rejected(found: Discovery) -> dict[str, int]:
    """The store's cells that are not the card's, by reason."""
    known = {key for each in found.wanted for key in each.keys or ()}
    others = sum(key not in known for key in found.loadable)
    return dict(found.rejected + Counter({str(AdoptionRefusal.ANOTHER_CALL): others}))
