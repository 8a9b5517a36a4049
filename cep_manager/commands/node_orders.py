"""When a node may be restarted or shut down. Pure.

A passive node may be stopped at any time, the active one only while the other has every accepted event. All are
restarted one after the other: first the passive node, then, once it is back and has every event, the active one, which
first transfers its role.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep_manager.errors import NodeSwitchError, UnknownNodeError
from cep_manager.monitoring.cluster_model import NodeView
from cep_manager.monitoring.nodes import why_no_order, why_no_takeover

NO_NODES = "this is not one of two nodes: it was not started with `cep node`"


def node_to_order(nodes: Sequence[NodeView], name: str) -> NodeView:
    """Return the node `name`, which may be restarted or shut down now.

    Raises:
        UnknownNodeError: When no node has the name.
        NodeSwitchError: The node is down, or it has events that the other node lacks.
    """
    if not nodes:
        raise NodeSwitchError(NO_NODES)
    node = next((one for one in nodes if one.name == name), None)
    if node is None:
        raise UnknownNodeError(f"no node is named {name}; there are {', '.join(one.name for one in nodes)}")
    reason = why_no_order(nodes, node)
    if reason:
        raise NodeSwitchError(reason)
    return node


def require_protection(nodes: Sequence[NodeView]) -> NodeView:
    """Return the passive node, which can take over from the active one. Raise NodeSwitchError when it cannot."""
    reason = why_no_takeover(nodes)
    if reason:
        raise NodeSwitchError(reason)
    return next(one for one in nodes if not one.asked)
