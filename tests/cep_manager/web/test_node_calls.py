"""What people are shown of two nodes: REST, metrics, alerts and the console."""

import msgspec
from alert_world import found, picture
from manager_world import FakeView, World
from node_world import two_nodes

from cep_common.nodes.files import MirrorReport
from cep_manager.monitoring.cluster_model import ElectionView
from cep_manager.monitoring.overview.alerts import AlertSeverity
from cep_manager.nodes.rolling import WAITS_TO_RESTART, RollingRestart
from cep_manager.web.app import create_app


def test_both_nodes_are_told_and_shown() -> None:
    view = FakeView(World())
    view.nodes = two_nodes()
    client = create_app(view, 1_000).test_client()
    told = client.get("/api/v1/nodes").json["nodes"]
    assert [(node["name"], node["role"], node["in_sync"]) for node in told] == [
        ("node-1", "active", True),
        ("node-2", "passive", True),
    ]
    assert 'cep_node_protected{node="node-1"} 1.0' in client.get("/metrics").text
    assert "Two nodes keep each other" in client.get("/cluster").text


def test_a_passive_node_tells_of_nodes_itself() -> None:
    view = FakeView(World())
    view.nodes = two_nodes()
    view.managers = ()
    answer = create_app(view, 1_000).test_client().get("/api/v1/nodes")
    assert answer.status_code == 200
    assert len(answer.json["nodes"]) == 2


def test_a_switch_that_cannot_be_is_refused_with_the_reason() -> None:
    answer = create_app(FakeView(World()), 1_000).test_client().post("/api/v1/nodes/switch")
    assert answer.status_code == 409
    assert answer.json["code"] == "node-not-protected"


def test_an_administrator_switches_over_in_the_console_and_is_asked_before() -> None:
    view = FakeView(World())
    view.nodes = two_nodes()
    client = create_app(view, 1_000).test_client()
    shown = client.get("/cluster").text
    assert 'action="/cluster/switch-nodes" data-confirm="This node shuts down in an orderly way' in shown
    answer = client.post("/cluster/switch-nodes")
    assert answer.status_code == 303
    assert view.switched == 1
    assert "hands over" in client.get(answer.headers["Location"]).text


def test_a_node_whose_events_are_not_mirrored_offers_no_switch() -> None:
    view = FakeView(World())
    view.nodes = two_nodes(in_sync=False, reason="it has not answered for 1000 ms")
    client = create_app(view, 1_000).test_client()
    assert "switch-nodes" not in client.get("/cluster").text
    assert client.post("/cluster/switch-nodes").status_code == 409


def test_an_active_node_that_is_alone_is_an_alert() -> None:
    election = ElectionView(
        leads=True, leader=None, managers=(), nodes=two_nodes(in_sync=False, reason="it has not answered for 1000 ms")
    )
    alert = found(picture(World(), election=election))["node-not-protected"]
    assert alert.severity is AlertSeverity.CRITICAL
    assert "only: it has not answered for 1000 ms" in alert.what
    protected = ElectionView(leads=True, leader=None, managers=(), nodes=two_nodes())
    assert "node-not-protected" not in found(picture(World(), election=protected))


def test_nodes_are_restarted_and_shut_down_in_the_console_after_a_question() -> None:
    view = FakeView(World())
    view.nodes = two_nodes()
    client = create_app(view, 1_000).test_client()
    shown = client.get("/cluster").text
    for path, question in (
        ("/cluster/restart-nodes", "Both nodes restart one after the other"),
        ("/cluster/nodes/node-1/restart", "All processes of this node end in order and start again"),
        ("/cluster/nodes/node-2/shutdown", "All processes of this node end in order, and it stays away"),
    ):
        assert f'action="{path}" data-confirm="{question}' in shown
        answer = client.post(path)
        assert answer.status_code == 303
        assert "estart" in client.get(answer.headers["Location"]).text
    assert view.ordered == [("", "restart"), ("node-1", "restart"), ("node-2", "stop")]


def test_what_is_under_way_is_shown_in_place_of_the_buttons() -> None:
    view = FakeView(World())
    active, passive = two_nodes()
    view.nodes = (active, msgspec.structs.replace(passive, under_way="restarts"))
    client = create_app(view, 1_000).test_client()
    shown = client.get("/cluster").text
    assert "<td>restarts</td>" in shown
    assert "/cluster/nodes/node-2/restart" not in shown
    assert "/cluster/nodes/node-1/restart" not in shown, "the other one is not back yet"
    assert "restart-nodes" not in shown
    assert client.get("/api/v1/nodes").json["nodes"][1]["under_way"] == "restarts"


def test_a_node_whose_peer_mirrors_but_has_no_manager_yet_offers_no_restart_that_would_be_refused() -> None:
    """After a restart the worker of the other node is up before its manager."""
    view = FakeView(World())
    active, passive = two_nodes()
    view.nodes = (active, msgspec.structs.replace(passive, role="away"))
    client = create_app(view, 1_000).test_client()
    shown = client.get("/cluster").text
    assert not any(one in shown for one in ("restart-nodes", "switch-nodes", "restart-node-1", "restart-node-2"))
    for path in ("/cluster/restart-nodes", "/cluster/nodes/node-1/restart"):
        assert client.post(path).status_code == 409


def test_orders_over_rest_are_refused_where_accepted_events_would_be_out_of_reach() -> None:
    view = FakeView(World())
    client = create_app(view, 1_000).test_client()
    assert client.post("/api/v1/nodes/restart").status_code == 409, "there are no nodes"
    view.nodes = two_nodes(in_sync=False, reason="it has not answered for 1000 ms")
    for path in ("restart", "node-1/restart", "node-1/shutdown"):
        answer = client.post(f"/api/v1/nodes/{path}")
        assert (answer.status_code, answer.json["code"]) == (409, "node-not-protected")
    assert client.post("/api/v1/nodes/node-3/restart").status_code == 404
    assert client.post("/api/v1/nodes/node-2/restart").status_code == 202, "the passive one may always go"
    assert view.ordered == [("node-2", "restart")]


def test_no_node_goes_while_the_other_one_does() -> None:
    view = FakeView(World())
    client = create_app(view, 1_000).test_client()
    active, passive = two_nodes()
    view.nodes = (active, msgspec.structs.replace(passive, under_way="is shut down"))
    for path in ("restart", "node-1/restart", "node-1/shutdown"):
        answer = client.post(f"/api/v1/nodes/{path}")
        assert (answer.status_code, answer.json["code"]) == (409, "node-not-protected")
        assert "node-2 is shut down: wait until it is up again" in answer.json["message"]
    view.nodes = (msgspec.structs.replace(active, under_way="restarts"), passive)
    for path in ("restart", "node-2/restart", "node-2/shutdown"):
        assert client.post(f"/api/v1/nodes/{path}").status_code == 409
    assert view.ordered == []
    view.nodes = (msgspec.structs.replace(active, under_way=WAITS_TO_RESTART), passive)
    assert client.post("/api/v1/nodes/node-2/shutdown").status_code == 202, "in place of the restart of both"


def test_the_active_node_restarts_when_the_other_one_is_back_and_has_every_event() -> None:
    rolling = RollingRestart(7, 1_000, frozenset({"a", "b"}), 60_000)
    protected = MirrorReport("protected", since_ms=1_200)
    assert not rolling.is_my_turn(MirrorReport("protected", since_ms=900), {"a", "b"}), "it has not left yet"
    assert not rolling.is_my_turn(MirrorReport("alone", since_ms=1_100), {"a", "new"})
    assert not rolling.is_my_turn(None, {"a", "new"})
    assert not rolling.is_my_turn(protected, {"a", "b"}), "only its worker is back: no manager can take over"
    assert rolling.is_my_turn(protected, {"a", "new"})
