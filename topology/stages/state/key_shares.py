"""The ownership of keys by a stage's instances, for redistributing state."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa

from query_plan.model import GroupingKind, ProcessingStage
from siddhi.engine.jit.arrays import Int64Array
from siddhi.engine.migration.rescale import KeyShare
from topology.grouping import key_hashes


def key_shares(stage: ProcessingStage) -> dict[str, KeyShare]:
    """Return the distribution of keyed inputs among the instances of `stage`, which is that of its events."""
    shares = {}
    for one in stage.inputs:
        match one.grouping.kind:
            case GroupingKind.FIELDS | GroupingKind.EXPRESSION:
                shares[one.stream.id] = KeyShare(one.grouping.key, partial(_by_value, stage.parallel))
            case GroupingKind.RANGES:
                shares[one.stream.id] = KeyShare(None, partial(_by_label, stage))
    return shares


def _by_value(instances: int, keys: pa.Array) -> Int64Array:
    owners: Int64Array = key_hashes(keys).astype(np.int64) % instances
    return owners


def _by_label(stage: ProcessingStage, labels: pa.Array) -> Int64Array:
    return np.array([stage.owner(label) for label in labels.to_pylist()], dtype=np.int64)
