"""Every writer of events that people read writes floats with their shortest text."""

from __future__ import annotations

import pyarrow as pa

from cep_common.protocol.links import StreamSchema
from cep_worker.formats.sink_mappers.json_mapper import json_mapper
from siddhi.language.ast import AttributeType
from topology.events.frames import event_rows
from topology.stages.state.state_queries import _values
from topology.stages.tasks.sampler import _texts as sampled

BATCH = pa.record_batch(
    {
        "_timestamp": pa.array([7, 8], pa.int64()),
        "_kind": pa.array([0, 0], pa.int8()),
        "f": pa.array([0.1, None], pa.float32()),
        "d": pa.array([0.1, 2.5]),
    }
)


def test_rows_and_json_of_events() -> None:
    assert event_rows(BATCH, timed=False) == [{"f": 0.1, "d": 0.1}, {"f": None, "d": 2.5}]
    mapper = json_mapper({}, StreamSchema("Floats", (("f", "float"), ("d", "double"))), "sink")
    assert mapper.events(BATCH)[0] == b'{"event":{"f":0.1,"d":0.1}}'


def test_samples_and_answers_to_questions() -> None:
    assert sampled(BATCH, 1) == ['{"_timestamp": 7, "f": 0.1, "d": 0.1}']
    assert _values(BATCH.column("f"), AttributeType.FLOAT) == [0.1, None]
