"""What Prometheus reads: jobs by state, workers and their cards, events, requests. It changes nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from restrike.server.card_metrics import card_metrics
from restrike.server.service import Service
from restrike.server.workers import WorkerRow


class Metrics(Collector):
    """The numbers of one server, in a registry of its own."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self.requests = Histogram(
            "restrike_request_seconds",
            "Time until an answer begins",
            ("method", "route", "status"),
            registry=self._registry,
        )

    def answer(self) -> Response:
        """All of them, as text."""
        return Response(generate_latest(self._registry), headers={"content-type": CONTENT_TYPE_LATEST})

    def describe(self) -> list[Metric]:
        """Nothing: what is collected is known only when it is asked for."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the database."""
        service = self._service
        jobs = GaugeMetricFamily("restrike_jobs", "Jobs by state", labels=["state"])
        for state, count in service.history.counts().items():
            jobs.add_metric([state], count)
        yield jobs
        workers = service.workers.live()
        yield from _workers(workers)
        yield from card_metrics(workers, service.redaction.text)
        switches = GaugeMetricFamily("restrike_switch", "1 while it is on", labels=["name"])
        for name, on in service.switches.states().items():
            switches.add_metric([name], int(on))
        yield switches
        yield GaugeMetricFamily(
            "restrike_events", "Number of the newest event", value=service.history.last_sequence()
        )
        yield GaugeMetricFamily("restrike_streams", "Open streams of events", value=service.news.streams)


def _workers(live: Sequence[WorkerRow]) -> Iterator[Metric]:
    """Workers of one device, which two servers on one database may have, are one series."""
    workers = GaugeMetricFamily("restrike_workers", "Live workers", labels=["device", "state"])
    for labels, count in Counter((worker.device, worker.state) for worker in live).items():
        workers.add_metric(labels, count)
    yield workers
    rss_bytes: Counter[str] = Counter()
    for worker in live:
        rss_bytes[worker.device] += worker.report.rss_bytes
    rss = GaugeMetricFamily("restrike_worker_rss_bytes", "Main memory of workers", labels=["device"])
    for device, size_bytes in rss_bytes.items():
        rss.add_metric([device], size_bytes)
    yield rss


class Timing:
    """Times requests by the route that served them; what no route serves has one name for all."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "none")
                labels = (_method(scope["method"]), route, str(message["status"]))
                self._metrics.requests.labels(*labels).observe(time.perf_counter() - began)
            await send(message)

        await self._app(scope, receive, watched)


def _method(name: str) -> str:
    return name if name in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
