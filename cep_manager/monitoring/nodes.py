"""The two nodes as people see them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from cep_common.nodes.files import MirrorReport
from cep_manager.monitoring.cluster_model import ElectionView, NodeView
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
