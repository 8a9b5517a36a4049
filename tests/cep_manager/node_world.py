"""Two nodes as the manager of the active one sees them."""

from __future__ import annotations

from cep_common.ids import Endpoint
from cep_manager.monitoring.cluster_model import NodeView


def two_nodes(in_sync: bool = True, reason: str = "") -> tuple[NodeView, NodeView]:
    """The active node, and the other one."""
    protection = "protected" if in_sync else "alone"
    here, there = Endpoint("a", 9893), Endpoint("b", 9893)
    active = NodeView(
        name="node-1", group="g", role="active", asked=True, http_address="http://a:9080", event_sync=here,
        in_sync=True, changed_ms=1, protection=protection, protection_since_ms=2, reason=reason,
    )  # fmt: skip
    passive = NodeView(
        name="node-2", group="g", role="passive", asked=False, http_address="http://b:9080", event_sync=there,
        in_sync=in_sync, changed_ms=1,
    )  # fmt: skip
    return active, passive
