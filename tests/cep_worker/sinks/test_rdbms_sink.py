"""The sink `rdbms` with SQLite: plain inserts, groups that come again, and databases that are not as they should be."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import zmq
from worker_world import KEY, alerts, now_ms, sink_context, until

from cep_common.errors import ConfigError
from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector
from cep_worker.config import ErrorsConfig
from cep_worker.connector_runtime.sink_types import make_sink
from cep_worker.failed_events.entries import FailedBatch
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.sinks.base import EventSink
from cep_worker.sinks.rdbms_tables import note_commit, origin_of

FIRST = GroupId(KEY, "publisher#0", 7, 0, 3, "log")
SECOND = GroupId(KEY, "publisher#0", 7, 1, 5, "log")
OTHER = GroupId(KEY, "publisher#1", 7, 0, 3, "other log")
TABLE = "create table alerts (carrier text, late bigint check (late < 100))"


class Desk:
    """Gives work to sinks of one database, and looks into that."""

    def __init__(self, path: Path, context: zmq.Context[Any]) -> None:
        self.errors = FailedEventStore(ErrorsConfig(str(path.parent / "errors")), "worker-1", lambda: 0)
        self.url = f"sqlite:///{path}"
        self._engine = sqlalchemy.create_engine(self.url, connect_args={"timeout": 0.05})
        self._event_loop = EventLoop()
        self._context = context
        self._sinks: list[EventSink] = []
        self.delivered = 0

    def sink(self, label: str = "rdbms", **options: str) -> EventSink:
        connector = Connector("Alerts", "rdbms", {"url": self.url, "table.name": "alerts", **options}, "", {})
        context = sink_context(connector, self._event_loop, self._context, self.errors)
        self._sinks.append(make_sink(replace(context, label=label)))
        return self._sinks[-1]

    def offer(self, sink: EventSink, *late: int, frame: FrameId | None = None) -> None:
        sink.offer(alerts(*[(number, "UA", number) for number in late]), None, self.receipt(), frame)

    def give(self, sink: EventSink, group: GroupId, *frames: list[int]) -> None:
        """The whole group, until it is delivered."""
        for number, frame in enumerate(frames, 1):
            self.offer(sink, *frame, frame=FrameId(group, number))
        sink.commit(group, self.receipt())
        self.until_settled(len(frames) + 1)

    def receipt(self) -> DeliveryReceipt:
        return DeliveryReceipt(1, self._count)

    def until_settled(self, receipts: int) -> None:
        until(lambda: self.delivered == receipts, self)
        self.delivered = 0

    def pump(self) -> None:
        self._event_loop.turn(5, now_ms)

    def run(self, statement: str) -> list[Any]:
        with self._engine.begin() as connection:
            result = connection.execute(sqlalchemy.text(statement))
            return list(result.scalars()) if result.returns_rows else []

    def kept(self) -> list[tuple[str, list[int]]]:
        """Why and what is in the error store."""
        entries = self.errors.entries(PlanKey(KEY.tenant, "Plan"), None, 100)
        return [(one.failed.reason, one.failed.events.column("late").to_pylist()) for one in entries]

    def late(self) -> list[int]:
        return self.run("select late from alerts order by rowid")

    def _count(self) -> None:
        self.delivered += 1

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("sink @sink(type='rdbms')")]
        for thread in threads:
            thread.join(5)
            assert not thread.is_alive()
        self._engine.dispose()
        self._event_loop.close()
        self.errors.close()


@pytest.fixture
def desk(tmp_path: Path, context: zmq.Context[Any]) -> Iterator[Desk]:
    made = Desk(tmp_path / "alerts.db", context)
    yield made
    made.close()


def test_each_event_is_a_row_of_the_table_that_was_asked_for(desk: Desk) -> None:
    sink = desk.sink(create="true", **{"timestamp.column": "at"})
    desk.offer(sink, 1, 2)
    desk.offer(sink, 3)
    desk.until_settled(2)
    assert desk.run("select late + at from alerts order by at") == [2, 4, 6]


def test_events_that_the_database_refuses_are_dropped_and_others_of_their_batch_stay(desk: Desk) -> None:
    desk.run(TABLE)
    sink = desk.sink()
    desk.offer(sink, 1, 200, 3)
    desk.until_settled(1)
    assert desk.late() == [1, 3]
    assert "1 events dropped, the last because: refused by the database" in sink.last_error()
    desk.offer(sink, 4)
    desk.until_settled(1)
    assert sink.last_error() == ""


def test_a_table_that_is_missing_is_waited_for(desk: Desk) -> None:
    sink = desk.sink()
    desk.offer(sink, 1)
    until(lambda: "no such table: alerts" in sink.last_error(), desk)
    assert not sink.drained()
    desk.run(TABLE)
    desk.until_settled(1)
    assert (desk.late(), sink.last_error()) == ([1], "")


def test_a_group_that_comes_again_is_recognised_by_another_process_too(desk: Desk) -> None:
    desk.run(TABLE)
    desk.give(desk.sink(), FIRST, [1, 2], [3])
    again = desk.sink()
    desk.give(again, FIRST, [1, 2], [3])
    desk.give(again, SECOND, [4, 500])
    desk.give(again, SECOND, [4, 500])
    assert desk.late() == [1, 2, 3, 4]
    assert desk.run("select checkpoint from cep_commits") == [5]


def test_sinks_of_the_same_stream_and_table_have_commits_of_their_own(desk: Desk) -> None:
    desk.run(TABLE)
    for label in ("rdbms", "rdbms#2", "rdbms.0", "rdbms.1"):
        desk.give(desk.sink(label), FIRST, [1])
        desk.give(desk.sink(label), FIRST, [1])
    assert desk.late() == [1] * 4


def test_the_name_of_a_commit_fits_its_column() -> None:
    names = {origin_of("x" * length, label) for length in (120, 128) for label in ("rdbms", "rdbms#2", "rdbms#3")}
    assert len(names) == 6
    assert max(map(len, names)) <= 128


def test_a_group_takes_effect_with_its_commit_and_not_before(desk: Desk) -> None:
    desk.run(TABLE)
    cut_short = desk.sink()
    desk.offer(cut_short, 1, frame=FrameId(FIRST, 1))
    desk.until_settled(1)
    cut_short.close()
    assert desk.late() == []
    desk.give(desk.sink(), FIRST, [1], [2])
    assert desk.late() == [1, 2]


def test_a_group_that_comes_anew_before_it_was_committed_is_inserted_once(desk: Desk) -> None:
    desk.run(TABLE)
    sink = desk.sink()
    for number, late in enumerate([1, 2], 1):
        desk.offer(sink, late, frame=FrameId(FIRST, number))
    desk.until_settled(2)
    desk.give(sink, FIRST, [1], [2], [3])
    assert desk.late() == [1, 2, 3]


def test_groups_of_several_publishers_may_come_at_the_same_time(desk: Desk) -> None:
    desk.run(TABLE)
    sink = desk.sink()
    for number, (group, late) in enumerate([(FIRST, 1), (OTHER, 2), (FIRST, 3), (OTHER, 4)], 1):
        desk.offer(sink, late, frame=FrameId(group, number))
    for group in (OTHER, FIRST):
        sink.commit(group, desk.receipt())
    desk.until_settled(6)
    assert desk.late() == [2, 4, 1, 3]


def test_a_group_is_whole_although_the_database_fails_in_its_midst(desk: Desk) -> None:
    sink = desk.sink(create="true")
    desk.run("create table cep_commits (wrong int)")
    desk.offer(sink, 1, frame=FrameId(FIRST, 1))
    desk.offer(sink, 2, frame=FrameId(FIRST, 2))
    sink.commit(FIRST, desk.receipt())
    until(lambda: "no such column" in sink.last_error(), desk)
    assert desk.late() == []
    desk.run("drop table cep_commits")
    desk.until_settled(3)
    assert desk.late() == [1, 2]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "nowhere"}, "url: Could not parse SQLAlchemy URL"),
        ({"url": "db7://x"}, "url: Can't load plugin: sqlalchemy.dialects:db7"),
        ({"url": "mysql+pymysql://u@h/d"}, "url: the driver pymysql is not installed"),
        ({"password.file": "/nowhere/at/all"}, "password.file: /nowhere/at/all cannot be read"),
        ({"timestamp.column": "late"}, "timestamp.column: late is the column of an attribute; choose another name"),
    ],
)
def test_what_cannot_be_used_is_named(desk: Desk, options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        desk.sink(**options)


def test_rows_that_are_refused_in_a_group_are_kept_and_the_others_of_it_stand(desk: Desk) -> None:
    desk.run(TABLE)
    sink = desk.sink(**{"on.error": "STORE"})
    desk.give(sink, FIRST, [1, 200], [300, 4])
    assert desk.late() == [1, 4]
    ((reason, late),) = desk.kept()
    assert reason.startswith("refused by the database: CHECK constraint failed")
    assert late == [200, 300]
    assert sink.dropped_events == 0
    assert "2 events kept (cep errors)" in sink.last_error()


def test_a_group_that_the_database_does_not_want_at_all_is_kept_as_a_whole(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.run(TABLE)
    sink = desk.sink(**{"on.error": "STORE"})

    def refuse(*_: Any) -> None:
        raise sqlalchemy.exc.ArgumentError("no such thing")

    monkeypatch.setattr("cep_worker.sinks.rdbms.note_commit", refuse)
    desk.give(sink, FIRST, [1, 2], [3])
    assert desk.kept() == [("no such thing", [1, 2, 3])]
    assert desk.late() == []


@pytest.mark.thorough
def test_events_that_are_refused_in_a_group_are_not_held_in_memory(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.run(TABLE)
    prepared: list[int] = []

    def batches() -> list[FailedBatch]:
        # By its type: `isinstance` asks weak references of other tests for what may be gone.
        return [one for one in gc.get_objects() if type(one) is FailedBatch]

    others = batches()  # of tests before in this process; held here, so that no new one has the address of one of them

    def look(*arguments: Any) -> None:
        prepared.append(len(batches()) - len(others))
        note_commit(*arguments)

    monkeypatch.setattr("cep_worker.sinks.rdbms.note_commit", look)
    sink = desk.sink()
    desk.give(sink, FIRST, *[[200 + place % 2 for place in range(100)] for _ in range(5)])
    assert sink.dropped_events == 500
    assert prepared == [0]
    desk.give(sink, SECOND, [1])
    assert desk.late() == [1], "the group before is forgotten"
