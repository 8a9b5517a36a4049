"""`GET /metrics` of the manager: the whole system, as of the last heartbeats."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response, request
from prometheus_client.core import Metric

from cep_common.monitoring.http_refusals import refusal_metrics
from cep_common.monitoring.metric_families import Metrics, gauge
from cep_manager.web.metrics.checkpoints import checkpoint_metrics
from cep_manager.web.metrics.cluster import cluster_metrics
from cep_manager.web.metrics.nodes import node_metrics
from cep_manager.web.metrics.plans import plan_metrics
from cep_manager.web.metrics.stages import stage_metrics
from cep_manager.web.metrics.tables import table_metrics
from cep_manager.web.ports import ClusterPort


def metrics_blueprint(view: ClusterPort) -> Blueprint:
    """`/metrics`, in the text format that is asked for."""
    blueprint = Blueprint("metrics", __name__)

    def tell() -> Iterator[Metric]:
        leads = view.election().leads
        yield gauge("cep_leader_up", "1 on the leader, 0 on a standby", (), [((), leads)])
        yield from refusal_metrics()
        yield from node_metrics(view.election().nodes)
        if not leads:
            return
        overview = view.overview()
        yield from cluster_metrics(overview)
        yield from plan_metrics(overview.snapshot)
        yield from checkpoint_metrics(overview.snapshot)
        yield from stage_metrics(overview.snapshot)
        yield from table_metrics(view.metric_tables())

    metrics = Metrics(tell)

    @blueprint.get("/metrics")
    def show_metrics() -> Response:
        text, content_type = metrics.scrape(request.headers.get("Accept", ""))
        return Response(text, content_type=content_type)

    return blueprint
