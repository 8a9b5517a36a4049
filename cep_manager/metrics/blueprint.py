"""`GET /metrics` of the manager: the whole system, as of the last heartbeats."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from cep_manager.manager_view import ManagerView
from cep_manager.metrics.cluster import cluster_metrics
from cep_manager.metrics.plans import plan_metrics
from cep_manager.metrics.stages import stage_metrics


class SystemCollector(Collector):
    """Tells what the manager knows at the moment of each scrape."""

    def __init__(self, view: ManagerView) -> None:
        self._view = view

    def collect(self) -> Iterator[Metric]:
        overview = self._view.overview()
        yield from cluster_metrics(overview)
        yield from plan_metrics(overview.snapshot)
        yield from stage_metrics(overview.snapshot)

    def describe(self) -> list[Metric]:
        """What there is to tell depends on what is deployed."""
        return []


def metrics_blueprint(view: ManagerView) -> Blueprint:
    """`/metrics`, in the text format that is asked for."""
    metrics = Blueprint("metrics", __name__)
    registry = CollectorRegistry()
    registry.register(SystemCollector(view))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)

    @metrics.get("/metrics")
    def show_metrics() -> Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        return Response(encode(registry), content_type=content_type)

    return metrics
