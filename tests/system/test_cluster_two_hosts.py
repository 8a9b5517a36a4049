"""Two hosts, each with a Spark worker and a worker of ours, all with keys and tokens: who can be served at home is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from late_plan import TEXT, departures
from standalone_cluster import Host, StandaloneCluster
from two_hosts import NoSecondHostError, two_hosts

from cep_cli.client.rest import ManagerClient
from cep_cli.system.local_system import Ports
from cep_cli.system.processes import LEAVES_WITH_PARENT
from cep_common.errors import PeerError
from cep_common.ids import Endpoint
from cep_common.security.access import AccessRole
from cep_common.security.config import SecurityConfig
from cep_common.security.keys import write_keys
from cep_common.security.tokens import TokenFile
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLAN = "LateFlights"
SPREAD = TEXT.replace(
    "@Plan:name('LateFlights')",
    "@Plan:name('LateFlights')\n@Plan:dist(workers='2', receiverParallelism='2', publisherParallelism='2')",
)
READY_S = 120.0
POLL_S = 0.1
STOP_S = 15.0


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with ExitStack() as opened:
        try:
            found = opened.enter_context(two_hosts()).hosts
        except NoSecondHostError as error:
            pytest.skip(f"no second host can be simulated here: {error}")
        yield found


def test_workers_and_stages_are_joined_within_their_host_and_across_when_there_is_no_other(
    hosts: tuple[Host, Host], tmp_path: Path
) -> None:
    ports = Ports.free()
    keys = SecurityConfig(str(tmp_path / "keys"))
    write_keys(Path(keys.keys))
    tokens = tmp_path / "tokens.json"
    token = TokenFile(tokens).create("test", AccessRole.ADMIN, None, 0)
    with StandaloneCluster(tmp_path, workers=2, hosts=hosts) as cluster, ExitStack() as processes:
        home, there = (host.address for host in hosts)
        manager = {
            "CEP_MANAGER__HOST": home,
            "CEP_MANAGER__SECURITY__KEYS": keys.keys,
            "CEP_MANAGER__SECURITY__TOKENS": str(tokens),
            "CEP_MANAGER__HTTP__HOST": home,
            "CEP_MANAGER__CONTROL__PORT": str(ports.control),
            "CEP_MANAGER__HTTP__PORT": str(ports.console),
            "CEP_MANAGER__DATABASE__URL": f"sqlite:///{tmp_path}/manager.db",
        }
        driver = {
            **cluster.driver_settings(),
            "CEP_DRIVER__HOST": home,
            "CEP_DRIVER__SECURITY__KEYS": keys.keys,
            "CEP_DRIVER__MANAGERS": f"[{home}:{ports.control}]",
        }
        client = ManagerClient(f"http://{home}:{ports.console}", token=token)
        processes.enter_context(_process("manager", hosts[0], manager, tmp_path))
        processes.enter_context(_process("driver", hosts[0], driver, tmp_path))
        _until(client.is_healthy)
        processes.enter_context(_process("worker", hosts[0], _worker(hosts[0], home, ports, keys, tokens), tmp_path))
        with _process("worker", hosts[1], _worker(hosts[1], home, ports, keys, tokens), tmp_path) as away:
            _until(lambda: len(client.cluster()["workers"]) == 2 and (client.cluster()["driver"] or {}).get("live"))
            client.deploy(SPREAD, replace=False)
            _until(lambda: client.plan(PLAN)["status"]["connected"])

            _until_equal(lambda: _ends(client, "outflow"), [(home, home), (there, there)])
            came = [_through(hosts, host, ports, keys, token) for host in hosts]
            away.kill()
            _until_equal(lambda: _ends(client, "outflow"), [(home, home), (home, there)])
        processes.enter_context(_process("worker", hosts[1], _worker(hosts[1], home, ports, keys, tokens), tmp_path))
        _until(lambda: (there, there) in _ends(client, "inflow"))

    assert came == [["UA"], ["UA"]], "what enters at a host comes out at one of both"


def _ends(client: ManagerClient, direction: str) -> list[tuple[str, str]]:
    """Of each connection that stands in that direction: the worker's host and the stage's, sorted."""
    graph = client.topology(PLAN)
    hosts = {node["id"]: node["host"] for node in graph["nodes"]}
    standing = [one for one in graph["connections"] if one["connected"] and one["direction"] == direction]
    return sorted((one["host"], hosts.get(one["peer"], "?")) for one in standing)


def _through(hosts: tuple[Host, Host], host: Host, ports: Ports, keys: SecurityConfig, token: str) -> list[Any]:
    """What comes out at either host of an event that is late, and one that is not, which enter at `host`."""
    schema = fetch_schema(f"http://{host.address}:{ports.http}", f"{PLAN}/Departures", token=token)
    with ExitStack() as opened:
        listeners = [
            opened.enter_context(EventListener(Endpoint(one.address, ports.egress), f"{PLAN}/Late", security=keys))
            for one in hosts
        ]
        sender = opened.enter_context(EventSender(Endpoint(host.address, ports.ingress), schema, security=keys))
        sender.send(departures(sender, ("B6", 60), ("UA", 61)))
        deadline = time.monotonic() + READY_S
        found: list[Any] = []
        while not found and time.monotonic() < deadline:
            batches = [listener.receive(int(POLL_S * 1000)) for listener in listeners]
            found = [
                carrier for batch in batches if batch is not None for carrier in batch.column("carrier").to_pylist()
            ]
    return found


def _worker(host: Host, manager: str, ports: Ports, keys: SecurityConfig, tokens: Path) -> dict[str, str]:
    address = host.address
    return {
        "CEP_WORKER__NAME": f"worker-{address}",
        "CEP_WORKER__HOST": address,
        "CEP_WORKER__SECURITY__KEYS": keys.keys,
        "CEP_WORKER__SECURITY__TOKENS": str(tokens),
        "CEP_WORKER__MANAGERS": f"[{manager}:{ports.control}]",
        **{f"CEP_WORKER__{part}__HOST": address for part in ("HTTP", "INGRESS", "EGRESS", "OUTFLOW")},
        "CEP_WORKER__HTTP__PORT": str(ports.http),
        "CEP_WORKER__INGRESS__PORT": str(ports.ingress),
        "CEP_WORKER__EGRESS__PORT": str(ports.egress),
    }


@contextmanager
def _process(name: str, host: Host, settings: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One of our processes, on `host`, until the context is left."""
    with (folder / f"{name}-{host.address}.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [*host.prefix, sys.executable, "-m", "cep_cli", name],
            env={**os.environ, LEAVES_WITH_PARENT: "1", "CEP_WORKER__WAL__PATH": str(folder / "wal"), **settings},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until(is_so: Callable[[], Any]) -> None:
    """Returns when `is_so()`; nobody may answer yet."""
    _until_equal(lambda: bool(is_so()), wanted=True)


def _until_equal(now: Callable[[], Any], wanted: Any) -> None:
    """Returns when `now()` is what is wanted; nobody may answer yet."""
    deadline = time.monotonic() + READY_S
    while (found := _answered(now)) != wanted:
        assert time.monotonic() < deadline, f"after {READY_S:.0f} s it is {found}, not {wanted}"
        time.sleep(POLL_S)


def _answered(now: Callable[[], Any]) -> Any:
    try:
        return now()
    except PeerError:
        return None
