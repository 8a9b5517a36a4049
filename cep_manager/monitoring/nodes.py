"""The two nodes as people see them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cep_common.nodes.files import MirrorReport
from cep_manager.monitoring.cluster_model import ElectionView, NodeView
from cep_manager.nodes.rolling import WAITS_TO_RESTART
from cep_manager.persistence.node_store import StoredNode


def node_views(
    nodes: Sequence[StoredNode],
    me: str,
    report: MirrorReport | None,
    election: ElectionView,
    under_way: Mapping[str, str],
) -> tuple[NodeView, ...]:
    """Return both nodes; `report` is the report of node `me`'s worker."""
    views = (_view(node, me, report if node.name == me else None, election) for node in nodes)
    return tuple(msgspec.structs.replace(view, under_way=under_way.get(view.name, "")) for view in views)


def why_no_takeover(nodes: Sequence[NodeView]) -> str:
    """Return why the passive node cannot take over from the active one, which was asked; empty if it can."""
    mine = next((one for one in nodes if one.asked), None)
    other = next((one for one in nodes if not one.asked), None)
    if mine is None or other is None or other.role != "passive" or mine.protection != "protected":
        reason = mine.reason if mine is not None and mine.reason else "the other node is away"
        return f"the other node cannot take over, it lacks accepted events: {reason}"
    return _who_goes(nodes)


def why_no_order(nodes: Sequence[NodeView], node: NodeView) -> str:
    """Return why `node`, one of `nodes`, may not be restarted or shut down now; empty if it may."""
    if node.role == "away":
        return f"{node.name} is away: start it on its host"
    going = _who_goes([one for one in nodes if one.name != node.name])
    return going or (why_no_takeover(nodes) if node.role == "active" else "")


def _who_goes(nodes: Sequence[NodeView]) -> str:
    # Until a node has stopped it is still shown, and its worker mirrors: if the other one stopped, too, there would be
    # none.
    going = next((one for one in nodes if one.under_way not in ("", WAITS_TO_RESTART)), None)
    return f"{going.name} {going.under_way}: wait until it is up again" if going is not None else ""


def _view(node: StoredNode, me: str, report: MirrorReport | None, election: ElectionView) -> NodeView:
    leader = election.leader.http_address if election.leader is not None else ""
    here = {member.http_address for member in election.managers if member.role != "silent"}
    view = NodeView(
        name=node.name,
        group=node.group,
        role="active" if node.http_address == leader else "passive" if node.http_address in here else "away",
        asked=node.name == me,
        http_address=node.http_address,
        event_sync=node.sync,
        in_sync=node.in_sync,
        changed_ms=node.changed_ms,
    )
    if report is None:
        return view
    return NodeView(
        **{field: getattr(view, field) for field in view.__struct_fields__[:8]},
        protection=report.state,
        protection_since_ms=report.since_ms,
        reason=report.reason,
        lag_ms=report.lag_ms,
        lag_bytes=report.lag_bytes,
        could_lose=report.could_lose,
        mirrored_bytes=report.mirrored_bytes,
    )
