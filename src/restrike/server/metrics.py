"""What Prometheus reads: jobs by state, workers, events, requests. It counts and changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from restrike.server.service import Service


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
        workers = GaugeMetricFamily("restrike_workers", "Live workers", labels=["device", "state"])
        rss = GaugeMetricFamily("restrike_worker_rss_bytes", "Main memory of a worker", labels=["device"])
        for worker in service.workers.live():
            workers.add_metric([worker.device, worker.state], 1)
            rss.add_metric([worker.device], worker.report.rss_bytes)
        yield workers
        yield rss
        switches = GaugeMetricFamily("restrike_switch", "1 while it is on", labels=["name"])
        for name, on in service.switches.states().items():
            switches.add_metric([name], int(on))
        yield switches
        yield GaugeMetricFamily(
            "restrike_events", "Number of the newest event", value=service.history.last_sequence()
        )
        yield GaugeMetricFamily("restrike_streams", "Open streams of events", value=service.news.streams)


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
