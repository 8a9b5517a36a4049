"""When a node may be restarted or shut down. Pure.

A passive node may go at any time; the active one only while the other has every accepted event. All are restarted one
after the other: first the passive node, then, once it is back and has every event, the active one, which first hands
over its role.
"""

from __future__ import annotations

from collections.abc import Sequence

from cep_manager.errors import NodeSwitchError, UnknownNodeError
from cep_manager.monitoring.cluster_model import NodeView
from cep_manager.nodes.rolling import WAITS_TO_RESTART

NO_NODES = "this is not one of two nodes: it was not started with `cep node`"


def node_to_order(nodes: Sequence[NodeView], name: str) -> NodeView:
    """Return the node `name`, which may be restarted or shut down now.

    Raises:
        UnknownNodeError: When no node has the name.
        NodeSwitchError: When the node is away, or what only it has would not be available without it.
    """
    if not nodes:
        raise NodeSwitchError(NO_NODES)
    node = next((one for one in nodes if one.name == name), None)
    if node is None:
        raise UnknownNodeError(f"no node is named {name}; there are {', '.join(one.name for one in nodes)}")
    if node.role == "away":
        raise NodeSwitchError(f"{name} is away: start it on its host")
    _require_that_none_goes([one for one in nodes if one.name != name])
    if node.role == "active":
        require_protection(nodes)
    return node


def require_protection(nodes: Sequence[NodeView]) -> NodeView:
    """Return the passive node, which can take over from the active one. Raise NodeSwitchError when it cannot."""
    mine = next((one for one in nodes if one.asked), None)
    other = next((one for one in nodes if not one.asked), None)
    if mine is None or other is None or other.role != "passive" or mine.protection != "protected":
        reason = mine.reason if mine is not None and mine.reason else "the other node is away"
        raise NodeSwitchError(f"the other node cannot take over, it lacks accepted events: {reason}")
    _require_that_none_goes(nodes)
    return other


def _require_that_none_goes(nodes: Sequence[NodeView]) -> None:
    # Until a node has stopped it is still shown, and its worker mirrors: if the other one stopped, too, there would be
    # none.
    going = next((one for one in nodes if one.under_way not in ("", WAITS_TO_RESTART)), None)
    if going is not None:
        raise NodeSwitchError(f"{going.name} {going.under_way}: wait until it is up again")
