"""Databases that tests of the plan store and the lease run on: an SQLite file and a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cep_common.ids import Endpoint
from cep_manager.config import DatabaseConfig
from cep_manager.election.lease_store import LeaseStore
from cep_manager.election.messages import ClaimLease, ManagerAddress, ReadLease
from cep_manager.persistence.database import Database
from cep_manager.plans.store import PlanStore, WriteRight

KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.cluster))
LEASE_MS = 2_000
IDLE_MS = 10_000


def url_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """The URL of an empty database of its own."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'deep' / 'manager.db'}"
    return str(request.getfixturevalue("postgresql").emptied())


def open_database(url: str, timeout_ms: int = 500, idle_ms: int = IDLE_MS) -> Database:
    return Database(DatabaseConfig(url=url, timeout_ms=timeout_ms), idle_ms)


def manager(name: str) -> ManagerAddress:
    """A manager; those whose names begin alike but for a `'` have one address."""
    port = 9_000 + sum(map(ord, name.rstrip("'")))
    return ManagerAddress(name, Endpoint("10.0.0.1", port), f"http://10.0.0.1:{port + 1_000}")


def leases_of(database: Database, name: str) -> LeaseStore:
    return LeaseStore(database, manager(name), lambda: 1_767_225_600_000)


def take_lease(database: Database, name: str) -> int:
    """The manager holds the lease, no matter who held it before, under the token that is returned."""
    leases = leases_of(database, name)
    lease = leases.carry_out(ReadLease()).lease
    return leases.carry_out(ClaimLease(lease.token, lease.beat, LEASE_MS)).lease.token


def leading_store(
    database: Database, name: str = "one", refused: Callable[[int, str], None] = lambda _token, _reason: None
) -> PlanStore:
    """The plan store of a manager that leads."""
    store = PlanStore(database)
    store.lead(WriteRight(take_lease(database, name), refused))
    return store
