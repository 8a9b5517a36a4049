"""The leader, and commands to the two nodes of a high-availability pair."""

from __future__ import annotations

import msgspec

from cep_common.nodes.files import NodeOrder
from cep_manager.commands.node_orders import NO_NODES, node_to_order, require_protection
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.errors import NodeSwitchError, NotLeaderError
from cep_manager.monitoring.cluster import election_view
from cep_manager.monitoring.cluster_model import ElectionView, NodeView
from cep_manager.monitoring.nodes import node_views
from cep_manager.nodes.agent import NodeAgent


class NodeCommands:
    """Commands on nodes."""

    def __init__(self, service: ManagerControlLoop) -> None:
        self._service = service

    def election(self) -> ElectionView:
        """See `ManagerView.election`."""
        view = election_view(self._service.election_status(), leads=self._service.leads())
        node = self._service.node
        if node is None:
            return view
        return msgspec.structs.replace(
            view, nodes=node_views(node.nodes, node.name, node.report, view, node.under_way())
        )

    def switch_nodes(self) -> NodeView:
        """See `ManagerView.switch_nodes`."""
        node, nodes = self._of_two()
        other = require_protection(nodes)
        node.give_order(node.name, "restart")
        return other

    def order_node(self, name: str, order: NodeOrder) -> NodeView:
        """See `ManagerView.order_node`."""
        node, nodes = self._of_two()
        ordered = node_to_order(nodes, name)
        node.give_order(name, order)
        return ordered

    def restart_nodes(self) -> tuple[NodeView, ...]:
        """See `ManagerView.restart_nodes`."""
        node, nodes = self._of_two()
        other = require_protection(nodes)
        node.restart_all(other.name)
        return self.election().nodes

    def _of_two(self) -> tuple[NodeAgent, tuple[NodeView, ...]]:
        """Return the agent of this node, which is the active one of two, and both nodes."""
        node, view = self._service.node, self.election()
        if node is None:
            raise NodeSwitchError(NO_NODES)
        if not view.leads:
            raise NotLeaderError("this node is passive: send the request to the active one")
        return node, view.nodes
