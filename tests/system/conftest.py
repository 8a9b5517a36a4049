"""One running system for all tests that only need one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from free_ports import free_port
from kafka_broker import Broker, NoBrokerError, kafka_broker
from late_plan import deploy_late
from postgresql_server import PostgresqlServer
from standalone_cluster import StandaloneCluster
from two_managers import ManagerPair

from cep_cli.system.local_system import LocalSystem, Ports


@pytest.fixture(scope="session")
def kafka_port() -> int:
    """The port of the broker that the running system knows; a test that needs one starts it there."""
    return free_port()


@pytest.fixture(scope="module")
def transport_broker(kafka_port: int) -> Iterator[Broker]:
    """The broker that the running system knows, without topics."""
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    try:
        with kafka_broker(port=kafka_port, auto_create=True) as started:
            yield started
    except NoBrokerError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def running_system(tmp_path_factory: pytest.TempPathFactory, kafka_port: int) -> Iterator[LocalSystem]:
    """Manager, driver with Spark and worker as processes; shared, so a test leaves no plan of its own behind."""
    folder = tmp_path_factory.mktemp("system")
    tables = {"URL": f"sqlite:///{folder}/metrics.db", "INTERVAL_MS": "1000"}
    settings = {f"CEP_MANAGER__METRICS__TABLES__{key}": value for key, value in tables.items()}
    settings["CEP_WORKER__RESULTS__MAX_UNDELIVERED_BYTES"] = str(
        2**20
    )  # so that a sink that blocks soon holds plans up
    settings["CEP_MANAGER__KAFKA__SERVERS"] = f"127.0.0.1:{kafka_port}"
    settings["CEP_DRIVER__METRICS__PORT"] = str(Ports.free().control)
    with LocalSystem(folder, Ports.free(), environment={**os.environ, **settings}) as started:
        yield started


@pytest.fixture
def system(running_system: LocalSystem) -> Iterator[LocalSystem]:
    """The shared system, without any plan before and after the test."""
    _undeploy_all(running_system)
    yield running_system
    _undeploy_all(running_system)


def _undeploy_all(system: LocalSystem) -> None:
    for plan in system.client.plans():
        system.client.undeploy(plan["plan"], discard=True)


@pytest.fixture(scope="session")
def manager_pair(own_postgresql: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManagerPair]:
    """A system of two managers that runs `LateFlights`; a test leaves both alive and no other plan."""
    with ManagerPair(tmp_path_factory.mktemp("pair"), own_postgresql.url) as system:
        system.start_manager("two")
        deploy_late(system)
        yield system


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A standalone Spark cluster with 4 slots: two workers of two cores."""
    with StandaloneCluster(tmp_path_factory.mktemp("spark"), workers=2, cores_each=2) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def cluster_system(spark_cluster: StandaloneCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """A system whose topologies run on that cluster, in four tasks each; a test leaves no plan behind."""
    environment = {
        **os.environ,
        **spark_cluster.driver_settings(),
        "CEP_MANAGER__TOPOLOGY__WORKERS": "4",
        # On a busy machine a stream may be fed long after another; it is waited for all the same.
        "CEP_DRIVER__STAGES__IDLE_MS": "120000",
        "CEP_WORKER__INFLOW__IDLE_MS": "120000",
    }
    with LocalSystem(tmp_path_factory.mktemp("clustered"), Ports.free(), environment=environment) as started:
        yield started
