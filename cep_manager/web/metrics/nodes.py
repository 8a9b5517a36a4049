"""Metrics of the two nodes of `cep node`, which the passive one exports, too. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import Metric

from cep_common.monitoring.metric_families import counter, gauge
from cep_manager.monitoring.cluster_model import NodeView

NODE = ("node",)


def node_metrics(nodes: Sequence[NodeView]) -> Iterator[Metric]:
    """Yield the metrics of nodes; none where there are no nodes."""
    if not nodes:
        return
    active = [((one.name,), one.role == "active") for one in nodes]
    yield gauge("cep_node_active", "1 while the node is active", NODE, active)
    in_sync = [((one.name,), one.in_sync) for one in nodes]
    yield gauge("cep_node_in_sync", "1 while the node has every accepted event", NODE, in_sync)
    mine = [one for one in nodes if one.asked]
    protected = [((one.name,), one.protection == "protected") for one in mine if one.role == "active"]
    yield gauge("cep_node_protected", "1 while the passive node has every accepted event", NODE, protected)
    lag_s = [((one.name,), one.lag_ms / 1_000) for one in mine]
    yield gauge(
        "cep_mirror_lag_seconds", "Age of the oldest event that the passive node does not have yet", NODE, lag_s
    )
    lag_bytes = [((one.name,), one.lag_bytes) for one in mine]
    yield gauge("cep_mirror_lag_bytes", "Bytes that the passive node does not have yet", NODE, lag_bytes)
    could_lose = [((one.name,), one.could_lose) for one in mine]
    yield gauge("cep_mirror_could_lose", "Acknowledged batches that are on the active node only", NODE, could_lose)
    mirrored = [((one.name,), one.mirrored_bytes) for one in mine]
    yield counter("cep_mirror_bytes", "Bytes mirrored to or by the node", NODE, mirrored)
