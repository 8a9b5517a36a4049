"""Data types of set-aside data for the web API."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_manager.monitoring.worker_calls import SilentWorker


class AsideEntry(msgspec.Struct, frozen=True):
    """Accepted `events` of a stream (`log`), or `results`, of a plan that is missing without having been undeployed.

    `worker` has set them aside at `since_ms`, and deletes them at `until_ms`.
    """

    id: str
    kind: Literal["log", "results"]
    plan: str
    stream: str
    events: int
    since_ms: int
    until_ms: int
    reason: str
    worker: str = ""


class AsideList(msgspec.Struct, frozen=True):
    """The set-aside data of a tenant, oldest first, from all workers except the `silent` ones."""

    tenant: int
    entries: tuple[AsideEntry, ...]
    silent: tuple[SilentWorker, ...]


class RestoredAside(msgspec.Struct, frozen=True):
    """The plan accepted `events` events, `lost` could not be read. `left` were not reached: ask again."""

    id: str
    worker: str
    events: int
    left: int
    lost: int = 0


class DiscardedAside(msgspec.Struct, frozen=True):
    """`events` were dropped."""

    id: str
    worker: str
    events: int


class AdoptedWorker(msgspec.Struct, frozen=True):
    """The worker serves this system from its next heartbeat on, and no longer `former_system`.

    Its data of plans that are missing here is set aside.
    """

    worker: str
    former_system: str
