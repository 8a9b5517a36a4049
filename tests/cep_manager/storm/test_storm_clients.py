"""What programs made for Storm ask for and how they read it: an agent that gathers metrics, a check that looks for the
busiest bolt, scripts that find a topology by its name and kill it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World
from storm_calls import PREFIX, client_of
from storm_world import running_view


@pytest.fixture(scope="module")
def client() -> FlaskClient:
    return client_of(running_view())


def fetched(client: FlaskClient, call: str, **parameters: object) -> Any:
    """As the agent does it: an `error` in the body counts as one, whatever the status says."""
    answer = client.get(f"{PREFIX}{call}", query_string=parameters)
    body = answer.get_json()
    assert "error" not in body
    assert answer.status_code == 200
    return body


def numbers(row: dict[str, Any], whole: str = "", fractions: str = "") -> None:
    """Every named value can be read as a number of its kind; nulls and empty texts would be left out."""
    for name in whole.split():
        assert int(row[name]) >= 0, name
    for name in fractions.split():
        assert float(row[name]) >= 0, name


# ---- the agent ------------------------------------------------------------------------------------------------------


def test_the_agent_reads_the_cluster(client: FlaskClient) -> None:
    cluster = fetched(client, "/cluster/summary")
    numbers(
        cluster,
        whole="executorsTotal slotsFree slotsTotal slotsUsed supervisors tasksTotal topologies",
        fractions="availCpu availMem cpuAssignedPercentUtil memAssignedPercentUtil totalCpu totalMem",
    )
    major, minor, patch = cluster["stormVersion"].replace(" ", "_").lower().split(".")
    assert (int(major), int(minor), int(patch.split("-")[0])) >= (1, 2, 0)  # it asks newer ones for metrics by stream
    assert cluster["slotsTotal"] == cluster["slotsUsed"] + cluster["slotsFree"]


def test_the_agent_counts_who_leads(client: FlaskClient) -> None:
    nimbuses = fetched(client, "/nimbus/summary")["nimbuses"]
    assert [one["status"].lower() for one in nimbuses] == ["leader"]
    numbers(nimbuses[0], whole="nimbusUpTimeSeconds port")


def test_the_agent_reads_supervisors(client: FlaskClient) -> None:
    supervisors = fetched(client, "/supervisor/summary")["supervisors"]
    assert [(one["id"], one["host"]) for one in supervisors] == [("0", "10.0.0.2"), ("1", "10.0.0.9")]
    for one in supervisors:
        numbers(one, whole="slotsTotal slotsUsed uptimeSeconds", fractions="totalCpu totalMem usedCpu usedMem")


@pytest.mark.parametrize("window", [60, 600])
def test_the_agent_reads_every_topology_in_its_own_window(client: FlaskClient, window: int) -> None:
    for found in fetched(client, "/topology/summary")["topologies"]:
        page = fetched(client, f"/topology/{found['id']}", window=window)
        numbers(
            page,
            whole="executorsTotal msgTimeout replicationCount tasksTotal uptimeSeconds workersTotal",
            fractions="assignedCpu assignedMemOffHeap assignedMemOnHeap assignedTotalMem requestedCpu "
            "requestedMemOffHeap requestedMemOnHeap samplingPct",
        )
        numbers(page["topologyStats"][0], whole="acked emitted failed transferred", fractions="completeLatency")
        assert isinstance(page["debug"], bool)
        common = "acked emitted executors failed tasks transferred"
        for bolt in page["bolts"]:
            numbers(bolt, whole=f"{common} executed", fractions="capacity executeLatency processLatency requestedCpu")
        for spout in page["spouts"]:
            numbers(spout, whole=common, fractions="completeLatency requestedCpu")
        for worker in page["workers"]:
            numbers(worker, whole="port executorsTotal uptimeSeconds", fractions="assignedCpu assignedMemOnHeap")
            assert all(count > 0 for count in worker["componentNumTasks"].values())


@pytest.mark.parametrize("window", [60, 600])
def test_the_agent_reads_metrics_by_stream(client: FlaskClient, window: int) -> None:
    (found,) = fetched(client, "/topology/summary")["topologies"]
    metrics = fetched(client, f"/topology/{found['id']}/metrics", window=window)
    values = [
        (component["id"], name, value["stream_id"], float(value["value"]))
        for kind in ("bolts", "spouts")
        for component in metrics[kind]
        for name, listed in component.items()
        if name != "id"
        for value in listed
    ]
    emitted = {(component, stream): value for component, name, stream, value in values if name == "emitted"}
    assert emitted["EventReceiver", "Departures"] == (60_000 if window == 600 else 0)
    assert all(value.get("component_id") for bolt in metrics["bolts"] for value in bolt["executed"])


# ---- the check ------------------------------------------------------------------------------------------------------


def test_the_check_finds_the_busiest_bolt_and_a_spouts_events(client: FlaskClient) -> None:
    headers = {"Authorization": "Basic bmFnaW9zOnNlY3JldA=="}
    topologies = client.get(f"{PREFIX}/topology/summary", headers=headers).get_json()["topologies"]
    pages = [client.get(f"{PREFIX}/topology/{one['id']}", headers=headers).get_json() for one in topologies]
    assert max(float(bolt["capacity"]) for page in pages for bolt in page["bolts"]) == pytest.approx(0.12)
    counts = {spout["spoutId"].lower(): int(spout["emitted"]) for page in pages for spout in page["spouts"]}
    assert counts == {"eventreceiver": 180_000}


# ---- scripts --------------------------------------------------------------------------------------------------------


def test_a_script_finds_a_topology_by_its_name_and_kills_it() -> None:
    world = World()
    world.active()
    view = FakeView(world)
    client = client_of(view)
    listed = client.get(f"{PREFIX}/topology/summary").get_json()["topologies"]
    (found,) = [one for one in listed if re.match(r"Storms\b", one["name"]) and one["status"] == "ACTIVE"]
    answer = client.post("/storm/api/v1/topology/%s/kill/%d" % (found["id"], 0))  # noqa: UP031 - as scripts write it
    assert answer.get_json()["status"] == "success"
    assert view.undeployed == [KEY]


def test_a_script_follows_the_parts_of_a_topology_by_what_each_answer_names(client: FlaskClient) -> None:
    (found,) = fetched(client, "/topology/summary")["topologies"]
    page = fetched(client, f"/topology/{found['encodedId']}")
    names = [one["encodedSpoutId"] for one in page["spouts"]] + [one["encodedBoltId"] for one in page["bolts"]]
    kinds = [fetched(client, f"/topology/{found['encodedId']}/component/{name}")["componentType"] for name in names]
    assert kinds == ["spout", "bolt", "bolt", "bolt", "bolt"]
    for worker in page["workers"]:
        (supervisor,) = fetched(client, "/supervisor", id=worker["supervisorId"])["supervisors"]
        assert supervisor["host"] == worker["host"]
