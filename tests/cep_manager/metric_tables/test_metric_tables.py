"""The metric tables in SQLite and PostgreSQL: written, read, removed when old; and a database that is gone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import sqlalchemy
from databases import KINDS, url_of
from manager_world import KEY, World
from storm_world import working_task
from test_recorded_figures import NOON_MS, running_world

from cep_common.clock import ManualClock
from cep_manager.config import MetricTablesConfig
from cep_manager.errors import PlanStoreError
from cep_manager.monitoring.metric_tables.database import MOST_REMOVALS, REMOVED_AT_ONCE_MS, MetricDatabase
from cep_manager.monitoring.metric_tables.history import Wanted
from cep_manager.monitoring.metric_tables.model import MetricRow
from cep_manager.monitoring.metric_tables.recorder import MetricRecorder
from cep_manager.monitoring.metric_tables.tables import METADATA, TABLES
from cep_manager.monitoring.metric_tables.writer import HANGS_MS, MOST_LOOKS, REMOVE_EVERY_MS, MetricWriter

SPREAD = dict.fromkeys(("max", "mean", "min", "stddev", "p50", "p75", "p95", "p98", "p99", "p999"), 0.125)
RATES = {"mean_rate": 999.75, "m1_rate": 1_000.5, "m5_rate": 0.25, "m15_rate": 0.1}
SOURCE = "Storms[-1234]"
UNIT = {"rate_unit": "events/second"}
VALUES: dict[str, dict[str, float | str]] = {
    "gauge": {"value": "0.125"},
    "counter": {"count": 3},
    "meter": {"count": 3, **RATES, **UNIT},
    "histogram": {"count": 3, **SPREAD},
    "timer": {"count": 3, **SPREAD, **RATES, **UNIT, "duration_unit": "milliseconds"},
}


def row(kind: str = "gauge", at_ms: int = NOON_MS) -> MetricRow:
    return MetricRow(kind, SOURCE, at_ms, f"of.{kind}", VALUES[kind])  # type: ignore[arg-type]


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return url_of(request.param, request, tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[MetricDatabase]:
    made = MetricDatabase(url)
    yield made
    made.close()


def test_rows_of_all_five_tables_are_there_with_their_fractions(database: MetricDatabase, url: str) -> None:
    database.write([row(kind) for kind in TABLES])
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        for kind, values in VALUES.items():
            # As somebody writes it who knows the tables of WSO2: the names in upper case, without quotes.
            found = connection.execute(sqlalchemy.text(f"SELECT * FROM METRIC_{kind.upper()}")).mappings().one()  # noqa: S608
            told = {name: value for name, value in found.items() if name != "id"}
            assert told == {"source": SOURCE, "timestamp": NOON_MS, "name": f"of.{kind}", **values}
    engine.dispose()


def test_rows_that_are_too_old_go_and_others_stay(database: MetricDatabase) -> None:
    database.write([row(at_ms=NOON_MS - 1), row(at_ms=NOON_MS)])
    database.remove_before(NOON_MS)
    assert database.read("gauge", SOURCE, "of.gauge", "value", 0, 2 * NOON_MS) == [(NOON_MS, 0.125)]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON_MS)


def test_what_the_tables_tell_of_a_known_load_is_that_load(url: str, clock: ManualClock) -> None:
    world = running_world()
    recorder = recorder_of(world, clock, url)
    record(recorder, clock, world, range(0, 121, 15))
    wanted = Wanted("received", NOON_MS, NOON_MS + 120_000, 30_000)
    told = recorder.history(KEY, wanted)
    assert (told.source, told.unit, [value for _, value in told.points]) == ("tables", "events/s", [150.0] * 4)
    p99 = recorder.history(KEY, wanted._replace(metric="latency_p99"))
    assert [value for _, value in p99.points] == [pytest.approx(40, rel=0.1)] * 4
    recorder.close()


def test_without_tables_the_history_comes_from_memory(clock: ManualClock) -> None:
    world = running_world()
    recorder = recorder_of(world, clock, "")
    record(recorder, clock, world, range(0, 61, 15))
    told = recorder.history(KEY, Wanted("queue", NOON_MS, NOON_MS + 120_000, 60_000))
    assert (told.source, told.points) == ("memory", ((NOON_MS + 60_000, 12.0), (NOON_MS + 120_000, None)))
    assert recorder.view().address == ""


def test_tables_that_cannot_be_read_leave_memory_and_say_why(tmp_path: Path, clock: ManualClock) -> None:
    world = running_world()
    path = tmp_path / "metrics.db"
    path.write_text("this is not a database, and it is long enough to be taken for a damaged one" * 10)
    recorder = recorder_of(world, clock, f"sqlite:///{path}")
    record(recorder, clock, world, range(0, 31, 15))
    told = recorder.history(KEY, Wanted("received", NOON_MS, NOON_MS + 30_000, 15_000))
    assert (told.source, told.points[-1][1]) == ("memory", 150.0)
    assert "not a database" in told.problem
    assert "not a database" in recorder.view().problem
    recorder.close()


def test_a_manager_that_does_not_lead_records_nothing_and_forgets(clock: ManualClock) -> None:
    world = running_world()
    leads = True
    recorder = MetricRecorder(MetricTablesConfig(), lambda: world.snapshot() if leads else None, clock)
    record(recorder, clock, world, (0, 15))
    leads = False
    recorder.record()
    told = recorder.history(KEY, Wanted("queue", NOON_MS, NOON_MS + 15_000, 15_000))
    assert told.points == ((NOON_MS + 15_000, None),)


def test_rows_that_a_slow_database_does_not_take_are_given_up_oldest_first_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "metrics.db"
    database = MetricDatabase(f"sqlite:///{path}")
    writer = MetricWriter(database, 15_000, 60_000, ManualClock())
    for look in range(MOST_LOOKS + 2):
        writer.put([row(at_ms=look)] * 3)
    view = writer.view()
    assert (view.dropped_rows, view.waiting_rows, view.problem) == (6, 3 * MOST_LOOKS, "")
    for _ in range(MOST_LOOKS):
        assert writer.write_next()
    assert (writer.view().written_rows, writer.view().waiting_rows) == (3 * MOST_LOOKS, 0)
    with sqlite3.connect(path) as look_in:
        assert look_in.execute("SELECT min(timestamp) FROM metric_gauge").fetchone() == (2,)
    look_in.close()
    database.close()


def test_the_writer_keeps_the_retention(tmp_path: Path, clock: ManualClock) -> None:
    database = MetricDatabase(f"sqlite:///{tmp_path / 'metrics.db'}")
    writer = MetricWriter(database, 15_000, 60_000, clock)
    writer.put([row(at_ms=NOON_MS - 60_001), row(at_ms=NOON_MS - 59_999)])
    writer.write_next()
    assert [at_ms for at_ms, _ in database.read("gauge", SOURCE, "of.gauge", "value", 0, NOON_MS)] == [NOON_MS - 59_999]
    database.close()


def test_many_old_rows_go_a_few_at_a_time_the_oldest_first(tmp_path: Path, clock: ManualClock) -> None:
    database = MetricDatabase(f"sqlite:///{tmp_path / 'metrics.db'}")
    pieces = MOST_REMOVALS + 1
    database.write([row(at_ms=NOON_MS - piece * REMOVED_AT_ONCE_MS) for piece in range(1, pieces + 1)])
    writer = MetricWriter(database, 15_000, 60_000, clock)
    for left in ([NOON_MS - REMOVED_AT_ONCE_MS, NOON_MS], [NOON_MS, NOON_MS]):
        writer.put([row()])
        assert writer.write_next()
        assert [at_ms for at_ms, _ in database.read("gauge", SOURCE, "of.gauge", "value", 0, NOON_MS)] == left
    database.close()


class FakeDatabase(MetricDatabase):
    """Remembers what it wrote; fails as a test wants."""

    def __init__(self) -> None:
        super().__init__("sqlite://")
        self.written: list[MetricRow] = []
        self.failure: Exception | None = None
        self.removal_failure: Exception | None = None
        self.removals = 0
        self.while_writing: Callable[[], None] = lambda: None

    def write(self, rows: Iterable[MetricRow]) -> None:
        self.while_writing()
        if self.failure is not None:
            raise self.failure
        self.written += rows

    def remove_before(self, at_ms: int) -> bool:
        self.removals += 1
        if self.removal_failure is not None:
            raise self.removal_failure
        return True


def test_rows_are_written_once_though_old_ones_cannot_be_removed(clock: ManualClock) -> None:
    database = FakeDatabase()
    database.removal_failure = PlanStoreError("canceling statement due to statement timeout")
    writer = MetricWriter(database, 15_000, 60_000, clock)
    for look in range(3):
        writer.put([row(at_ms=look)])
        assert writer.write_next()
    view = writer.view()
    assert ([one.at_ms for one in database.written], view.written_rows, view.waiting_rows) == ([0, 1, 2], 3, 0)
    assert (view.problem, writer.unreadable()) == (
        "old rows are not removed: canceling statement due to statement timeout", "",
    )  # fmt: skip
    assert database.removals == 1
    database.removal_failure = None
    clock.advance(REMOVE_EVERY_MS)
    writer.put([row()])
    writer.write_next()
    assert (database.removals, writer.view().problem) == (2, "")


def test_rows_that_trip_a_defect_are_given_up_and_those_to_come_are_written(clock: ManualClock) -> None:
    database = FakeDatabase()
    writer = MetricWriter(database, 15_000, 60_000, clock)
    database.failure = ValueError("a defect")
    writer.put([row()] * 2)
    writer.put([row()])
    assert not writer.write_next()
    view = writer.view()
    assert (view.dropped_rows, view.waiting_rows, view.problem) == (2, 1, "rows were dropped: ValueError('a defect')")
    database.failure = None
    assert writer.write_next()
    assert (writer.view().written_rows, writer.view().problem) == (1, "")


def test_a_database_that_hangs_or_fails_is_not_asked_for_charts(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = FakeDatabase()
    monkeypatch.setattr("cep_manager.monitoring.metric_tables.recorder.MetricDatabase", lambda _url: database)
    recorder = recorder_of(running_world(), clock, "sqlite://")
    wanted = Wanted("queue", NOON_MS, NOON_MS + 15_000, 15_000)
    told: list[tuple[str, str]] = []

    def ask() -> None:
        clock.advance(HANGS_MS)
        history = recorder.history(KEY, wanted)
        told.append((history.source, history.problem))

    database.while_writing = ask
    assert recorder.writer is not None
    recorder.writer.put([row()])
    recorder.writer.write_next()
    database.while_writing = lambda: None
    ask()
    database.failure = PlanStoreError("it is gone")
    recorder.writer.put([row()])
    recorder.writer.write_next()
    ask()
    assert told == [("memory", "the database has not answered for 10 s"), ("tables", ""), ("memory", "it is gone")]
    recorder.close()


def test_of_very_many_values_the_newest_are_read(database: MetricDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_manager.monitoring.metric_tables.database.MOST_ROWS_READ", 2)
    database.write([row(at_ms=NOON_MS + second) for second in range(4)])
    told = database.read("gauge", SOURCE, "of.gauge", "value", 0, 2 * NOON_MS)
    assert [at_ms for at_ms, _ in told] == [NOON_MS + 2, NOON_MS + 3]


def test_tables_of_before_get_the_index_that_charts_are_read_by(database: MetricDatabase, url: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    METADATA.create_all(engine)
    with engine.begin() as connection:
        for kind in TABLES:
            connection.execute(sqlalchemy.text(f"DROP INDEX idx_name_{kind}"))
    database.write([row()])
    for kind in TABLES:
        found = {one["name"]: one["column_names"] for one in sqlalchemy.inspect(engine).get_indexes(f"metric_{kind}")}
        assert found[f"idx_name_{kind}"] == ["name", "source", "timestamp"]
    engine.dispose()


def test_a_url_that_can_be_no_database_is_refused_by_its_key() -> None:
    with pytest.raises(PlanStoreError, match=r"metrics\.tables\.url"):
        MetricDatabase("nosuch://somewhere")


def recorder_of(world: World, clock: ManualClock, url: str) -> MetricRecorder:
    return MetricRecorder(MetricTablesConfig(url=url), world.snapshot, clock)


def record(recorder: MetricRecorder, clock: ManualClock, world: World, seconds: Iterable[int]) -> None:
    """A look at each of these seconds; what it makes is written at once."""
    for second in seconds:
        world.now_ms = second * 1_000
        world.hear(working_task(second))
        clock.advance(NOON_MS + world.now_ms - clock.now_ms())
        recorder.record()
        if recorder.writer is not None:
            recorder.writer.write_next()
