"""Times that no event may have are refused wherever events come in."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cep_common.errors import InputError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.event_times import EARLIEST_MS, LATEST_MS, strange_times
from cep_worker.formats.files.table_files import read_csv, read_parquet
from cep_worker.formats.rejections import EventsRejectedError
from cep_worker.formats.source_mappers.json_mapper import JsonEvents
from cep_worker.formats.text_columns import TextColumns
from cep_worker.ingest.link_ingress import _problem
from siddhi.column_names import KIND, TIMESTAMP

STREAM = StreamSchema("S", (("at", "long"), ("n", "int")))
PLAIN = StreamSchema("S", (("n", "int"),))
STRANGE = [2**63 - 1, -(2**63), LATEST_MS + 1, EARLIEST_MS - 1]
TOLD = "must lie between the years 1 and 9999"


@pytest.mark.parametrize("time", STRANGE)
def test_json_names_each_event_of_a_strange_time(time: int) -> None:
    events = [{TIMESTAMP: 1, "n": 1}, {TIMESTAMP: time, "n": 2}, {TIMESTAMP: time, "n": 3}]
    for reader, body in (
        (JsonEvents(PLAIN).read, json.dumps(events)),
        (JsonEvents(PLAIN).read_lines, "\n".join(map(json.dumps, events))),
        (JsonEvents(StreamSchema("S", (("at", "long"), ("n", "int"))), "at").read,
         json.dumps([{"at": event[TIMESTAMP], "n": event["n"]} for event in events])),
    ):  # fmt: skip
        with pytest.raises(EventsRejectedError) as refused:
            reader(body.encode(), 1_000)
        assert [one.index for one in refused.value.details] == [1, 2]
        assert TOLD in refused.value.details[0].problem


@pytest.mark.parametrize("time", STRANGE)
def test_texts_and_tables_name_the_row(time: int, tmp_path: Path) -> None:
    columns = [pa.array(["1", str(time)]), pa.array(["1", "2"])]
    with pytest.raises(EventsRejectedError) as refused:
        TextColumns(STREAM, "at").batch(columns, 1_000)
    assert [(one.index, one.attribute) for one in refused.value.details] == [(1, "at")]
    pq.write_table(pa.table({"at": pa.array([1, time], pa.int64()), "n": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text(f"at,n\n1,1\n{time},2\n", encoding="utf-8")
    for rows in (
        read_parquet(tmp_path / "a.parquet", STREAM, lambda: 1, "at", 10),
        read_csv(tmp_path / "a.csv", STREAM, lambda: 1, "at"),
    ):
        with pytest.raises(InputError, match=f"row 2: at .*{TOLD}"):
            list(rows)


@pytest.mark.parametrize("time", STRANGE)
def test_links_refuse_a_frame_with_a_strange_time_or_watermark(time: int) -> None:
    def frame(*times: int) -> pa.RecordBatch:
        kinds = pa.array([0] * len(times), pa.int8())
        return pa.RecordBatch.from_arrays([pa.array(times, pa.int64()), kinds], names=[TIMESTAMP, KIND])

    assert TOLD in _problem(frame(5, time), 0)
    assert _problem(frame(EARLIEST_MS, LATEST_MS), -(2**63)) == "", "that is: no promise"
    assert "beyond the year 9999" in _problem(frame(5), 2**63 - 1)


def test_the_bounds_themselves_are_times_and_nulls_are_none() -> None:
    assert strange_times(pa.array([EARLIEST_MS, None, LATEST_MS])) == []
    assert strange_times(pa.array([None, None], pa.int64())) == []
    assert strange_times(pa.array([], pa.int64())) == []
    assert strange_times(pa.array([0, 2**63 - 1, None, -(2**63)]), most=5) == [1, 3]
