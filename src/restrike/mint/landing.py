"""Lands one entry of a mint: traced, keyed, compiled, sealed, proved and published, each in its phase.

An entry that cannot land raises and costs only itself; nothing of it is seen in the store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from restrike.keys import Key
from restrike.mint.cell.facts import Ingress, Recipe, Target
from restrike.mint.cell.header import HeaderFacts
from restrike.mint.cell.host import this_host
from restrike.mint.cell.key import cell_key
from restrike.mint.cell.layout import HEAD_BYTES
from restrike.mint.cell.manifest import ManifestFacts, Phase, Proof
from restrike.mint.cell.seal import seal
from restrike.mint.cell.verify import size_of, verify_header, verify_manifest
from restrike.mint.environment import EnvironmentSeal
from restrike.mint.events import EventLog, Keyed, MintPhase, PhaseEnded, read_events
from restrike.mint.graph import check_ranges, graph_digest, trace
from restrike.mint.preparing import signer_of
from restrike.mint.proving import prove, require_steady
from restrike.mint.recipe import Job, compile_into, load
from restrike.mint.recipes import aot
from restrike.mint.recipes.options import Value
from restrike.mint.refusals import Subject
from restrike.mint.request import MintRequest
from restrike.mint.second_process import prove_in_second_process
from restrike.mint.store.store import CellStore
from restrike.mint.targets import compiler_version
from restrike.mint.warm import Observed

LAYOUT = "contiguous"
How = Literal["published", "already", "keyed"]


@dataclass(frozen=True, kw_only=True)
class Traced:
    """An entry whose key is known: all that compiling it needs."""

    seen: Observed
    program: Any
    graph: str
    key: Key


def key_of(
    graph: str, ingress: Ingress, *, recipe: Recipe, target: Target, options: Mapping[str, Value]
) -> Key:
    """The key of one call by its graph's digest, made before anything is compiled."""
    return cell_key(
        graph=graph,
        ingress=ingress,
        stack=this_host(target).stack(recipe),
        target=target,
        layout=LAYOUT,
        options=options,
    )


@dataclass(frozen=True, kw_only=True)
class Landing:
    """What all entries of one mint share."""

    request: MintRequest
    store: CellStore
    log: EventLog
    options: dict[str, Value]
    tolerance: float
    environment: EnvironmentSeal

    def land(self, component: nn.Module, seen: Observed, subject: Subject, scratch: Path) -> tuple[str, How]:
        """Land one entry; its key and how it came to be in the store. Raises what any phase raises."""
        with self.log.during(MintPhase.TRACE_GRAPH, seen.name):
            traced = self._trace(component, seen, subject)
        key = traced.key.digest
        self.log.add(Keyed(entry=seen.name, key=key.hex))
        if self.request.keys_only:
            return key.hex, "keyed"
        with self.store.minting(key) as mine:
            if not mine:
                return key.hex, "already"
            return key.hex, self._make(component, traced, subject, scratch)

    def _trace(self, component: nn.Module, seen: Observed, subject: Subject) -> Traced:
        require_steady(component, seen, subject)
        program = trace(component, seen, subject)
        request, graph = self.request, graph_digest(program)
        key = key_of(graph, seen.ingress, recipe=request.recipe, target=request.target, options=self.options)
        return Traced(seen=seen, program=program, graph=graph, key=key)

    def _make(self, component: nn.Module, traced: Traced, subject: Subject, scratch: Path) -> How:
        folder, entry = scratch / "members", traced.seen.name
        job = Job(
            program=traced.program,
            component=component,
            seen=traced.seen,
            options=self.options,
            target=self.request.target,
        )
        with self.log.during(MintPhase.COMPILE, entry):
            compile_into(self.request.recipe, job, folder, scratch)
            self.environment.check(subject)
            # Compiling can guard sizes that tracing left open.
            check_ranges(traced.program, traced.seen.ingress, subject)
        with self.log.during(MintPhase.SEAL, entry):
            draft = self._seal(traced, folder, proof=None, to=scratch / "draft.cell")
        with self.log.during(MintPhase.PROVE, entry):
            self._require_whole(draft)
            proof = self._prove(component, traced, subject, folder, scratch)
        with self.log.during(MintPhase.PUBLISH, entry):
            sealed = self._seal(traced, folder, proof=proof, to=scratch / "proved.cell")
            return self.store.publish(sealed)

    def _prove(
        self, component: nn.Module, traced: Traced, subject: Subject, folder: Path, scratch: Path
    ) -> Proof:
        request = self.request
        if request.recipe == "dynamo":
            # This process has compiled already; only another one can show that nothing is left to compile.
            return prove_in_second_process(request, traced.seen.name, folder, scratch)
        run = load(request.recipe, folder, component, traced.seen, self.options, subject)
        return prove(run, component, traced.seen, self.tolerance, subject)

    def _require_whole(self, draft: Path) -> None:
        """Raise CellRefused if what was sealed would not be let in elsewhere."""
        with draft.open("rb") as file:
            opened = verify_header(file.read(HEAD_BYTES), size_of(file), self.store.ring)
            verify_manifest(file, opened)

    def _seal(self, traced: Traced, folder: Path, *, proof: Proof | None, to: Path) -> Path:
        facts = ManifestFacts(
            graph=traced.graph,
            ingress=traced.seen.ingress,
            layout=LAYOUT,
            options=self.options,
            constants=aot.constants(traced.program),
            compiler=compiler_version(),
            phases=self._phases(traced.seen.name),
            proof=proof,
        )
        signer = signer_of(self.request)
        return seal(folder, header=self._facts(), manifest=facts, signer=signer, to=to)

    def _facts(self) -> HeaderFacts:
        target = self.request.target
        return HeaderFacts(stack=this_host(target).stack(self.request.recipe), target=target)

    def _phases(self, entry: str) -> tuple[Phase, ...]:
        ended = [event for event in read_events(self.log.path) if isinstance(event, PhaseEnded)]
        return tuple(
            Phase(name=event.phase.value, seconds=event.seconds, peak_bytes=event.peak_bytes)
            for event in ended
            if event.entry in (None, entry)
        )
