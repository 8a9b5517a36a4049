"""What people are shown of two nodes: REST, metrics, alerts and the console."""

from alert_world import found, picture
from manager_world import FakeView, World
from node_world import two_nodes

from cep_manager.monitoring.cluster_model import ElectionView
from cep_manager.monitoring.overview.alerts import AlertSeverity
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
    assert 'action="/cluster/switch-nodes" data-confirm="This node ends in order' in shown
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
