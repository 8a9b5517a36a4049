"""Calls of the REST API for the two nodes of `cep node`."""

from __future__ import annotations

from cep_manager.errors import NodeSwitchError, UnknownNodeError
from cep_manager.monitoring.cluster_model import NodeList, NodeView
from cep_manager.web.api.calls import Api
from cep_manager.web.ports import ManagerView


def node_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/nodes",
        "The two nodes of `cep node`: roles, completeness of accepted events, lag; the passive node answers, too",
        answers=NodeList,
        of_tenant=False,
    )
    def list_nodes() -> NodeList:
        return NodeList(view.election().nodes)

    @api.post(
        "/nodes/switch",
        "Hand over from the active node to the other one; the answer is the node that takes over",
        answers={202: NodeView},
        fails=(NodeSwitchError,),
        of_tenant=False,
    )
    def switch_nodes() -> tuple[NodeView, int]:
        return view.switch_nodes(), 202

    @api.post(
        "/nodes/restart",
        "Restart both nodes in an orderly way, the passive one first; then the active one hands over",
        answers={202: NodeList},
        fails=(NodeSwitchError,),
        of_tenant=False,
    )
    def restart_nodes() -> tuple[NodeList, int]:
        return NodeList(view.restart_nodes()), 202

    @api.post(
        "/nodes/<name>/restart",
        "Restart one node in an orderly way; if it is the active one, the other one takes over",
        answers={202: NodeView},
        fails=(NodeSwitchError, UnknownNodeError),
        of_tenant=False,
    )
    def restart_node(name: str) -> tuple[NodeView, int]:
        return view.order_node(name, "restart"), 202

    @api.post(
        "/nodes/<name>/shutdown",
        "Stop one node in an orderly way; it stays down until it is started on its host",
        answers={202: NodeView},
        fails=(NodeSwitchError, UnknownNodeError),
        of_tenant=False,
    )
    def stop_node(name: str) -> tuple[NodeView, int]:
        return view.order_node(name, "stop"), 202
