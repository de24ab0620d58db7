"""Turns what a run and its engine say into a job's events and its record. It stops nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from restrike.endpoints.context import Progressed
from restrike.engine.events import Event, Noticed, PreviewReady, Started, StepFinished, Succeeded
from restrike.errors import printable, typed
from restrike.server.worker.memory import rss_bytes
from restrike.server.worker.previews import Previews
from restrike.server.worker.telling import Telling, Told
from restrike.workflow.runner import RunBegan, RunEvent, StepBegan, StepEnded
from restrike.workflow.runs import Manifest, StepRecord

_NOTE = 500


@dataclass(kw_only=True)
class Watching:
    """What is seen of one attempt; `began` keeps the name of its run's folder, `run_name` is it."""

    telling: Telling
    previews: Previews
    began: Callable[[str], None]
    run_name: str | None = None
    step: str | None = None
    """The step that runs."""
    longest_step_s: float = 0.0
    most_rss_bytes: int = 0
    """Of this process, while the attempt ran."""
    _made: dict[str, Any] = field(default_factory=dict, init=False)
    _items: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    """The pictures of the generation that runs in a step."""

    def run(self, event: RunEvent) -> None:
        """A run has its folder; a step began or ended."""
        match event:
            case RunBegan():
                self.began(event.run)
                self.run_name = event.run
            case StepBegan():
                self.step_began(event.action.id, event.action.operation.label)
            case StepEnded():
                self._ended(event.record)
            case _:
                pass

    def step_began(self, step: str, label: str) -> None:
        """A step is looked at."""
        self.step = step
        self.telling.tell("step", {"step": step, "label": label, "status": "began"})

    def progressed(self, step: str, event: Progressed) -> None:
        """A handler says how far it is: as so many of a hundred, for all who count steps."""
        counted = {"item": None, "done": round(100 * event.fraction), "total": 100}
        said = {"fraction": round(event.fraction, 6), "note": printable(event.note)[:_NOTE]}
        self.telling.tell("progress", {"step": step, **counted, **said})

    def _ended(self, record: StepRecord) -> None:
        data = {
            "step": record.action,
            "label": record.label,
            "status": record.status,
            "seconds": record.seconds,
            "origin": record.origin,
            "reason": record.reason,
        }
        self.telling.tell("step", data)
        for file in record.files:
            made = {"file": file.file, "sha256": file.sha256, "size_bytes": file.size_bytes}
            self.telling.tell("artifact", {"step": record.action, **made, "reused": file.reused})

    def engine(self, step: str, event: Event) -> None:
        """A generation of a step moved on."""
        match event:
            case Started():
                self._items[step] = event.items
                # The model may decide itself how many steps it takes: then nothing is known yet.
                total = event.steps // len(event.items) or None
                self._denoised(step, item=None, done=0, total=total)
            case StepFinished():
                self.longest_step_s = max(self.longest_step_s, event.seconds)
                seconds = round(event.seconds, 6)
                self._denoised(step, item=event.item, done=event.step, total=event.total, seconds=seconds)
            case PreviewReady():
                self.telling.later(lambda: self._preview(step, event))
            case Noticed():
                self.telling.tell("notice", {"step": step, "message": event.message})
            case Succeeded():
                self._made[step] = _made(event)
            case _:
                pass

    def _denoised(self, step: str, *, item: int | None, **counted: Any) -> None:
        """Steps are counted by picture, so it is told which of how many pictures it is."""
        items = self._items[step]
        place = {"picture": 1 if item is None else items.index(item) + 1, "pictures": len(items)}
        self.telling.tell("progress", {"step": step, "item": item, **counted, **place})

    def _preview(self, step: str, event: PreviewReady) -> Told:
        shown = {"step": step, "item": event.item, "done": event.step}
        try:
            return "preview", {**shown, "file": self.previews.keep(event.frames_THWC)}
        except OSError as error:
            return "notice", {"step": step, "message": f"no preview: {typed(error).message}"}

    def note_memory(self) -> None:
        """Look at what the process takes of main memory; called now and then."""
        self.most_rss_bytes = max(self.most_rss_bytes, rss_bytes())

    def record(self, manifest: Manifest | None) -> Mapping[str, Any]:
        """What the job's record gains: times, what was reused, and what computed the rest."""
        if manifest is None:
            return {}
        self.note_memory()
        return {
            "seed": manifest.seed,
            "rss_bytes": self.most_rss_bytes,
            "seconds": {step.action: step.seconds for step in manifest.steps},
            "reused": [step.action for step in manifest.steps if step.status == "reused"],
            "computed": [step.action for step in manifest.steps if step.status == "computed"],
            "notices": list(manifest.notices),
            "generations": self._made,
        }


def _made(event: Succeeded) -> dict[str, Any]:
    """Which weights, cells and captures made the pictures of one step."""
    generation = event.generation
    provenance = generation.picture.provenance
    return {
        "card": provenance.card,
        "seed": generation.seed,
        "weights": provenance.weights,
        "weight_versions": dict(provenance.weight_versions),
        **asdict(generation.executed),
    }
