"""One running system for all tests that only need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cep_cli.local_system import LocalSystem, Ports


@pytest.fixture(scope="session")
def running_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSystem]:
    """Manager, driver with Spark and worker as processes; shared, so a test leaves no plan of its own behind."""
    with LocalSystem(tmp_path_factory.mktemp("system"), Ports.free()) as started:
        yield started


@pytest.fixture
def system(running_system: LocalSystem) -> Iterator[LocalSystem]:
    """The shared system, without any plan before and after the test."""
    _undeploy_all(running_system)
    yield running_system
    _undeploy_all(running_system)


def _undeploy_all(system: LocalSystem) -> None:
    for plan in system.client.plans():
        system.client.undeploy(plan["plan"])
