"""Frames that consumers already have when they are stored on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cep_common.protocol.links import Data
from cep_worker.outflows.transactional_log.deliveries import ConsumerDeliveries
from cep_worker.outflows.transactional_log.group_file import ResultGroup


@dataclass(frozen=True, slots=True)
class UnloggedFrame:
    """A frame that consumers have; the consumers in `waiting` have not delivered it yet."""

    message: Data
    batch: pa.RecordBatch
    body: Any
    waiting: frozenset[str]


@dataclass(frozen=True, slots=True)
class LoggedFrames:
    """Frames that are stored until the consumers that have them have delivered them."""

    deliveries: ConsumerDeliveries
    group: ResultGroup

    def settle(self, stream: str, name: str) -> None:
        """Record that a consumer has delivered one more frame."""
        self.deliveries.settle((stream, name), self.group)
