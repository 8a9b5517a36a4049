"""Calls of the REST API for the two nodes of `cep node`."""

from __future__ import annotations

from cep_manager.errors import NodeSwitchError
from cep_manager.monitoring.cluster_model import NodeList, NodeView
from cep_manager.web.api.calls import Api
from cep_manager.web.ports import ManagerView


def node_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/nodes",
        "The two nodes of `cep node`: roles, who has every accepted event, lag; the passive node answers, too",
        answers=NodeList,
        of_tenant=False,
    )
    def list_nodes() -> NodeList:
        return NodeList(view.election().nodes)

    @api.post(
        "/nodes/switch",
        "The active node hands over to the other one; the answer is the node that takes over",
        answers={202: NodeView},
        fails=(NodeSwitchError,),
        of_tenant=False,
    )
    def switch_nodes() -> tuple[NodeView, int]:
        return view.switch_nodes(), 202
