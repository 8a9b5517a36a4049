"""The dependencies of all parts that serve a plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import zmq

from cep_common.ids import PlanKey
from cep_worker.config import WorkerConfig
from cep_worker.inflows.wal.store import WalStore
from cep_worker.outflows.transactional_log.store import TransactionalLogStore
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.shared_links import SharedLinks
from cep_worker.storage.group_commit import DiskSync


@dataclass(frozen=True, slots=True)
class PlanContext:
    """The dependencies of all parts that serve a plan.

    `changed` is called when a connection opens or breaks, `room` when a full inflow has room again. `failed` stores
    accepted events that cannot be processed as failed, and returns how many were lost. `wall_ms` returns the time of
    day.
    """

    worker: str
    config: WorkerConfig
    event_loop: EventLoop
    context: zmq.Context[zmq.Socket[bytes]]
    wal: WalStore
    disk_sync: DiskSync
    prepared: TransactionalLogStore
    changed: Callable[[], None]
    room: Callable[[], None]
    failed: Callable[[PlanKey, str, pa.RecordBatch, str], int]
    wall_ms: Callable[[], int]
    links: SharedLinks
