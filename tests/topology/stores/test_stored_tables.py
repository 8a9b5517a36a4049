"""A processing stage whose table has its rows in a database."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy
from postgresql_server import PostgresqlServer
from topology_builders import KEY, open_links

from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from topology.acks import Ack
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.model import Topology
from topology.stages.contract import NO_STATE, Parts
from topology.stages.kinds.processor import Processor
from topology.stages.settings import Datasource, StageSettings
from topology.stores.database_table import DatabaseTable

PLAN = """
@Plan:name('P') @Plan:delivery('{delivery}')
@Import('Put:1.0.0') define stream Put (k string, v double);
@Import('Add:1.0.0') define stream Add (k string, v double);
@Import('Drop:1.0.0') define stream Drop (k string, v double);
@Import('Ask:1.0.0') define stream Ask (k string, v double);
@Export('Out:1.0.0') define stream Out (k string, v double);
@Store(type='rdbms', {store}, table.name='limits', refresh.interval='20')
{key}
define table T (k string, v double);
from Put update or insert into T set T.v = v on T.k == k;
from Add insert into T;
from Drop delete T on T.k == k;
from Ask join T on Ask.k == T.k select T.k as k, T.v as v insert into Out;
"""
MANY = (
    PLAN.replace("table T (k string", "table T (k string, m string")
    .replace("from Put update or insert", "from Put select k, 'm' as m, v update or insert")
    .replace("from Add insert", "from Add select k, 'm' as m, v insert")
)
PATIENCE_S = 20.0
Pair = tuple[str, float | None]


class World:
    """Stages of the plan, and the database as others see it."""

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self.engine = sqlalchemy.create_engine(self.url, isolation_level="AUTOCOMMIT", connect_args={"timeout": 5})
        self.stages: list[Processor] = []
        self.out: list[Bundle] = []
        self._tickets = 0

    def stage(
        self, state: Parts = NO_STATE, *, key: str = "@PrimaryKey('k')", delivery: str = "at-least-once",
        store: str = "", bare: bool = False, plan: str = PLAN, **settings: Any,
    ) -> Processor:  # fmt: skip
        """A stage that has started from `state`."""
        text = plan.format(store=store or f"url='{self.url}'", key=key, delivery=delivery)
        if bare:
            text = "\n".join(line for line in text.splitlines() if not line.startswith("@Store"))
        read = read_xml(write_xml(build(analyse(parse(text)))))
        (stage,) = read.processors
        name = f"{stage.name}#0"
        processor = Processor(
            name, Topology(KEY, 1, read, 1), stage, self.out.append, StageSettings(**{"store_urls": True, **settings})
        )
        self.stages.append(processor)
        processor.open(1_000, state)
        open_links(processor, 1_000)
        return processor

    def send(self, stage: Processor, stream: str, *rows: Pair, settled: Callable[[], None] = lambda: None) -> None:
        columns = {"k": pa.array([k for k, _ in rows]), "v": pa.array([v for _, v in rows], pa.float64())}
        batch = pa.record_batch(columns)
        self._tickets += 1
        batches = ((stream, batch),)
        names = ("A", "A", self._tickets, "A", (stream,), 1_000)
        bundle = Bundle(*names, idle=True, batches=batches, receipt=Ack(settled))
        stage.on_bundle(bundle, 1_000)

    def ask(self, stage: Processor, *keys: str) -> list[Pair]:
        """What the stage finds in its table."""
        self.out.clear()
        self.send(stage, "Ask", *((key, 0.0) for key in keys))
        return [(row["k"], row["v"]) for one in self.out for _, batch in one.batches for row in batch.to_pylist()]

    def sql(self, text: str) -> list[Any]:
        with self.engine.connect() as connection:
            found = connection.exec_driver_sql(text)
            return [tuple(row) for row in found] if found.returns_rows else []

    def rows(self) -> list[Any]:
        return self.sql("select k, v from limits order by k, v")

    def die(self, stage: Processor) -> None:
        """The stage is gone with what it had in memory: its threads write no more."""
        for keeper in stage._stored._keepers.values():
            keeper._next_changes = lambda: ([], 0)  # type: ignore[method-assign]
        stage.close()
        self.stages.remove(stage)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path / "world.db")
    yield found
    for stage in found.stages:
        stage.close()
    found.engine.dispose()


def until(condition: Callable[[], bool]) -> None:
    end, pause = time.monotonic() + PATIENCE_S, threading.Event()
    while not condition():
        assert time.monotonic() < end, "it did not come to pass in time"
        pause.wait(0.005)


def test_rows_that_were_there_are_found_and_changes_go_to_the_database(world: World) -> None:
    world.sql("create table limits (k text primary key, v double, note text)")
    world.sql("insert into limits values ('a', 1.5, 'mine'), ('b', null, null), ('d', 4, null)")
    stage = world.stage()
    assert world.ask(stage, "a", "b", "c") == [("a", 1.5), ("b", None)]
    world.send(stage, "Put", ("a", 2.5), ("c", 3.0))
    world.send(stage, "Drop", ("b", 0.0), ("d", 0.0))
    until(lambda: world.rows() == [("a", 2.5), ("c", 3.0)])
    assert world.sql("select note from limits where k = 'a'") == [("mine",)]
    assert world.ask(stage, "a", "b", "c") == [("a", 2.5), ("c", 3.0)]


def test_what_others_change_is_found_after_a_while_and_what_was_changed_here_stays(world: World) -> None:
    stage = world.stage()
    world.send(stage, "Put", ("a", 1.0), ("b", 1.0))
    until(lambda: len(world.rows()) == 2)
    world.sql("insert into limits values ('x', 7)")
    world.sql("delete from limits where k = 'b'")
    until(lambda: world.ask(stage, "a", "b", "x") == [("a", 1.0), ("x", 7.0)])
    for turn in range(30):
        world.send(stage, "Put", ("a", float(turn)))
        assert world.ask(stage, "a") == [("a", float(turn))]
    until(lambda: world.rows() == [("a", 29.0), ("x", 7.0)])


def test_rows_without_a_key_are_told_apart_by_all_they_hold(world: World) -> None:
    world.sql("create table limits (k text, v double)")
    world.sql("insert into limits values ('a', 1), ('a', 1), ('b', null), ('c', 3)")
    stage = world.stage(key="")
    world.send(stage, "Add", ("c", 3.0), ("c", 3.0))
    world.send(stage, "Drop", ("b", 0.0))
    world.send(stage, "Put", ("a", 5.0))
    until(lambda: world.rows() == [("a", 5.0), ("a", 5.0), ("c", 3.0), ("c", 3.0), ("c", 3.0)])


@pytest.mark.parametrize("key", ["@PrimaryKey('k')", ""])
def test_columns_that_the_plan_does_not_have_keep_what_they_hold(world: World, key: str) -> None:
    world.sql("create table limits (k text, v double, note text)")
    world.sql("insert into limits values ('a', 1, 'first'), ('b', 1, 'other')")
    if not key:
        world.sql("insert into limits values ('a', 1, 'second')")
    stage = world.stage(key=key)
    world.send(stage, "Put", ("a", 2.0))
    world.send(stage, "Put", ("a", 5.0), ("c", 7.0))
    until(stage.is_drained)
    first, *others = world.sql("select * from limits order by k, note")
    assert first == ("a", 5.0, "first")
    assert others == ([] if key else [("a", 5.0, "second")]) + [("b", 1.0, "other"), ("c", 7.0, None)]


def test_what_was_not_written_when_a_stage_died_is_written_by_the_next(world: World) -> None:
    stage = world.stage()
    world.send(stage, "Put", ("a", 1.0))
    until(lambda: len(world.rows()) == 1)
    with world.engine.connect() as other:
        other.exec_driver_sql("begin exclusive")
        world.send(stage, "Put", ("a", 2.0), ("b", 2.0))
        state = stage.snapshot()
        world.die(stage)
        other.exec_driver_sql("rollback")
    assert world.rows() == [("a", 1.0)]
    stage = world.stage(state)
    assert world.ask(stage, "a", "b") == [("a", 2.0), ("b", 2.0)]
    until(lambda: world.rows() == [("a", 2.0), ("b", 2.0)])


def test_exactly_once_changes_are_written_with_their_checkpoint_and_once(world: World) -> None:
    stage = world.stage(key="", delivery="exactly-once")
    world.send(stage, "Add", ("a", 1.0))
    first = stage.mark(1)
    world.send(stage, "Add", ("b", 1.0))
    assert world.ask(stage, "a", "b") == [("a", 1.0), ("b", 1.0)]
    assert stage.is_drained(), "nothing that may be written waits"
    assert world.rows() == []
    stage.complete(1)
    until(lambda: world.rows() == [("a", 1.0)])
    world.die(stage)
    stage = world.stage(first, key="", delivery="exactly-once")  # its changes are in the database already
    assert world.ask(stage, "a", "b") == [("a", 1.0)]
    world.send(stage, "Add", ("b", 1.0))
    second = stage.mark(2)
    world.die(stage)
    stage = world.stage(second, key="", delivery="exactly-once")  # complete, but nobody had told the stage
    assert world.ask(stage, "a", "b") == [("a", 1.0), ("b", 1.0)]
    stage.mark(3)
    stage.complete(3)
    until(lambda: world.rows() == [("a", 1.0), ("b", 1.0)])
    world.die(stage)
    stage = world.stage(second, key="", delivery="exactly-once")
    assert world.ask(stage, "a", "b") == [("a", 1.0), ("b", 1.0)]


def test_changes_of_a_checkpoint_that_failed_go_with_the_next_one(world: World) -> None:
    stage = world.stage(delivery="exactly-once")
    world.send(stage, "Put", ("a", 1.0))
    stage.mark(1)
    stage.abandon(1)
    world.send(stage, "Put", ("b", 2.0))
    stage.mark(2)
    world.send(stage, "Put", ("c", 3.0))
    stage.complete(2)
    until(lambda: world.rows() == [("a", 1.0), ("b", 2.0)])
    assert stage.is_drained(), "nothing else that may be written waits"
    assert world.rows() == [("a", 1.0), ("b", 2.0)]


def test_a_state_from_before_what_the_database_has_repeats_nothing(world: World) -> None:
    """Somebody goes back to an old checkpoint: numbers of groups are not used again."""
    stage = world.stage(key="", delivery="exactly-once")
    old = stage.mark(1)
    stage.complete(1)
    for number, name in enumerate("abc", start=2):
        world.send(stage, "Add", (name, 1.0))
        stage.mark(number)
        stage.complete(number)
    until(lambda: len(world.rows()) == 3)
    world.die(stage)
    stage = world.stage(old, key="", delivery="exactly-once")
    world.send(stage, "Add", ("d", 1.0))
    stage.mark(2)
    stage.complete(2)
    until(lambda: len(world.rows()) == 4)


def test_a_stage_that_was_given_up_and_one_that_goes_on_from_its_state_write_a_group_once(world: World) -> None:
    former = world.stage(key="", delivery="exactly-once")
    world.send(former, "Add", ("a", 1.0))
    state = former.mark(1)
    stage = world.stage(state, key="", delivery="exactly-once")
    former.complete(1)
    until(lambda: world.rows() == [("a", 1.0)])
    world.send(stage, "Add", ("b", 1.0))
    stage.mark(2)
    stage.complete(2)
    until(stage.is_drained)
    assert world.rows() == [("a", 1.0), ("b", 1.0)]
    until(lambda: world.ask(stage, "a", "b") == [("a", 1.0), ("b", 1.0)])


@pytest.mark.thorough
def test_two_that_write_one_group_at_a_moment_write_it_once(world: World, postgresql: PostgresqlServer) -> None:
    url = postgresql.emptied()
    engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1))
    former = world.stage(store=f"jdbc.url='jdbc:{url}'", key="", delivery="exactly-once")
    world.send(former, "Add", ("a", 1.0))
    former.mark(1)
    former.complete(1)
    until(former.is_drained)
    world.send(former, "Add", ("b", 1.0))
    state = former.mark(2)
    stage = world.stage(state, store=f"jdbc.url='jdbc:{url}'", key="", delivery="exactly-once")
    stage.mark(3)
    with engine.connect() as connection:
        waiting = sqlalchemy.text("select count(*) from pg_locks where not granted")
        connection.execute(sqlalchemy.text("lock table limits"))
        former.complete(2)
        stage.complete(3)
        until(lambda: connection.scalar(waiting) == 2)
        connection.rollback()
        until(former.is_drained)
        until(stage.is_drained)
        assert connection.scalar(sqlalchemy.text("select count(*) from limits")) == 2
    engine.dispose()


def test_a_plan_that_delivers_exactly_once_no_more_repeats_no_group(world: World) -> None:
    stage = world.stage(key="", delivery="exactly-once")
    world.send(stage, "Add", ("a", 1.0))
    state = stage.mark(1)
    stage.complete(1)
    until(lambda: world.rows() == [("a", 1.0)])
    world.die(stage)
    stage = world.stage(state, key="")
    until(stage.is_drained)
    assert world.rows() == [("a", 1.0)]


def test_a_database_that_does_not_answer_holds_events_back_and_loses_nothing(world: World) -> None:
    stage = world.stage(store_queue_rows=2)
    assert not stage.is_full()
    with world.engine.connect() as other:
        other.exec_driver_sql("begin exclusive")
        world.send(stage, "Put", ("a", 1.0))
        world.send(stage, "Put", ("b", 1.0))
        assert stage.is_full()
        assert not stage.is_drained()
        other.exec_driver_sql("rollback")
    until(stage.is_drained)
    assert not stage.is_full()
    assert world.rows() == [("a", 1.0), ("b", 1.0)]


def test_events_whose_changes_wait_count_as_under_way_also_for_senders_in_other_tasks(world: World) -> None:
    stage = world.stage(store_queue_rows=2)
    settled: list[int] = []
    with world.engine.connect() as other:
        other.exec_driver_sql("begin exclusive")
        for number in range(4):
            world.send(stage, "Put", (f"a{number}", 1.0), settled=partial(settled.append, number))
        assert settled == [0, 1]
        assert stage.next_deadline_ms() == 1_050
        stage.on_time(1_050)
        assert settled == [0, 1]
        other.exec_driver_sql("rollback")
    until(stage.is_drained)
    stage.on_time(1_100)
    assert settled == [0, 1, 2, 3]
    assert stage.next_deadline_ms() is None


def test_the_state_is_about_to_go_and_nobody_waits_for_the_database(world: World) -> None:
    stage = world.stage(store_queue_rows=1, delivery="exactly-once")
    settled: list[int] = []
    for number in range(3):
        world.send(stage, "Put", (f"a{number}", 1.0), settled=partial(settled.append, number))
    assert settled == [0]
    stage.rest()
    assert settled == [0, 1, 2]


def test_what_the_database_refuses_is_told_and_the_rest_is_written(world: World) -> None:
    world.sql("create table limits (k text primary key, v double check (v < 100))")
    stage = world.stage()
    world.send(stage, "Put", ("a", 1.0), ("b", 1_000.0), ("c", 3.0))
    until(stage.is_drained)
    assert world.rows() == [("a", 1.0), ("c", 3.0)]
    stage.tell_of_stores()
    (failure,) = stage.statistics.failures.records()
    assert (failure.code, failure.count) == ("store-refused", 1)
    until(lambda: world.ask(stage, "a", "b") == [("a", 1.0)])


def test_a_row_that_others_have_inserted_in_the_meantime_is_updated(world: World) -> None:
    stage = world.stage()
    with world.engine.connect() as other:
        other.exec_driver_sql("begin exclusive")
        world.send(stage, "Put", ("a", 2.0))
        other.exec_driver_sql("insert into limits values ('a', 1)")
        other.exec_driver_sql("commit")
    until(stage.is_drained)
    assert world.rows() == [("a", 2.0)]


def test_a_table_that_is_lost_is_told_until_it_is_back(world: World) -> None:
    stage = world.stage()
    world.sql("drop table limits")
    until(lambda: any(True for _ in stage._stored.problems()))
    stage.tell_of_stores()
    (failure,) = stage.statistics.failures.records()
    assert failure.code == "store-unreachable"
    assert "no such table: limits" in failure.text


@pytest.mark.parametrize(
    ("store", "told"),
    [
        ("datasource='STOCKS'", "unknown datasource STOCKS; set stages.datasources.STOCKS.url"),
        ("url='sqlite:////no/such/folder/x.db'", "unable to open database file"),
        ("url='nothing at all'", "Could not parse"),
        ("url='mysql+pymysql://db/stocks'", "the driver pymysql is not installed"),
        ("jdbc.url='jdbc:postgresql://cep:gehe/im@db/stocks'", "url: its port or one of its parameters is invalid"),
        ("jdbc.url='jdbc:postgresql://a:5432,b:5432/stocks'", "url: its port or one of its parameters is invalid"),
        ("url='sqlite:///x.db?timeout=soon'", "url: its port or one of its parameters is invalid"),
        ("url='sqlite://', password.file='/no/such/file'", "password.file: /no/such/file cannot be read"),
    ],
)
def test_a_database_that_cannot_be_used_fails_the_stage_and_says_why(world: World, store: str, told: str) -> None:
    with pytest.raises(TopologyError, match="table T: ") as failed:
        world.stage(store=store)
    assert told in str(failed.value)
    assert "gehe" not in str(failed.value)


def test_names_are_found_in_the_case_that_the_database_has_them_in(world: World) -> None:
    world.sql('create table "Limits" ("K" text primary key, v double)')
    world.sql("""insert into "Limits" values ('a', 1), ('b', 2)""")
    stage = world.stage()
    world.send(stage, "Put", ("a", 5.0), ("c", 3.0))
    world.send(stage, "Drop", ("b", 0.0))
    until(stage.is_drained)
    assert world.sql('select "K", v from "Limits"') == [("a", 5.0), ("c", 3.0)]
    assert world.ask(stage, "a", "b", "c") == [("a", 5.0), ("c", 3.0)]


def test_a_table_without_one_of_the_columns_fails_the_stage_and_names_it(world: World) -> None:
    world.sql("create table limits (k text primary key, value double)")
    with pytest.raises(TopologyError, match="table limits has no column 'v'; it has k, value"):
        world.stage()


def test_rows_that_do_not_fit_the_table_fail_the_stage(world: World) -> None:
    world.sql("create table limits (k text, v text)")
    world.sql("insert into limits values ('a', 'many')")
    with pytest.raises(TopologyError, match="column v of the table limits contains values that are not double"):
        world.stage()


def test_a_datasource_is_the_operators(world: World) -> None:
    world.sql("create table limits (k text primary key, v double)")
    world.sql("insert into limits values ('a', 1)")
    stage = world.stage(store="datasource='STOCKS'", datasources={"STOCKS": Datasource(world.url)})
    assert world.ask(stage, "a") == [("a", 1.0)]


@pytest.mark.parametrize("store", ["url='sqlite://'", "datasource='STOCKS', password.file='/etc/passwd'"])
def test_an_operator_may_let_plans_reach_datasources_alone(world: World, store: str) -> None:
    settings = {"datasources": {"STOCKS": Datasource(world.url)}, "store_urls": False}
    with pytest.raises(TopologyError, match=r"table T: .*stages\.datasources.*stages\.store_urls: true"):
        world.stage(store=store, **settings)
    assert world.ask(world.stage(store="datasource='STOCKS'", **settings), "a") == []


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+psycopg://cep:secret@db/stocks",
        "jdbc:postgresql://db/stocks?user=cep&password=secret",
        "jdbc:sqlserver://db;user=cep;Password=secret",
    ],
)
def test_a_datasource_with_a_password_in_its_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="holds a password"):
        Datasource(url)


def test_the_user_in_a_datasources_url_is_heeded(world: World, postgresql: PostgresqlServer) -> None:
    url = "jdbc:" + postgresql.emptied().replace("cep@", "") + "?user=nobody"
    with pytest.raises(TopologyError, match='role "nobody" does not exist'):
        world.stage(store="datasource='STOCKS'", datasources={"STOCKS": Datasource(url)})


def test_changes_of_a_table_that_has_no_store_any_more_are_told(world: World) -> None:
    stage = world.stage(delivery="exactly-once")
    world.send(stage, "Put", ("a", 1.0))
    state = stage.mark(1)
    assert world.stage(state, delivery="exactly-once", store="", bare=True).left == (
        "P#0: changes of the table T that were not yet in its database: it no longer has a store",
    )


def test_what_is_logged_of_refused_rows_holds_none_of_their_values(
    world: World, postgresql: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgresql.emptied()
    engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("create table limits (k text primary key, v real check (v < 100))")
    stage = world.stage(store=f"jdbc.url='jdbc:{url}'")
    world.send(stage, "Put", *((f"gehe{number}", 1_000.0) for number in range(30)), ("b", 2.0))
    until(stage.is_drained)
    assert "gehe" not in caplog.text
    (line,) = (one for one in caplog.messages if "refused" in one)
    assert line.startswith("rows refused by the database: table=limits rows=30 first_reason=new row for relation")
    assert stage._stored.refused_rows() == 30
    engine.dispose()


@pytest.mark.thorough
@pytest.mark.parametrize("key", ["@PrimaryKey('k')", ""])
def test_postgresql_holds_rows_as_sqlite_does(world: World, postgresql: PostgresqlServer, key: str) -> None:
    url = postgresql.emptied()
    engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("create table Limits (K varchar(9)" + (" primary key" if key else "") + ", V real)")
        connection.exec_driver_sql("insert into limits values ('a', 0.1), ('b', null), ('c', 3)")
        stage = world.stage(store=f"jdbc.url='jdbc:{url}'", key=key, delivery="exactly-once")
        world.send(stage, "Put", ("a", 1.5), ("d", None))
        world.send(stage, "Drop", ("b", 0.0))
        world.send(stage, "Add", ("far too long a text", 1.0), ("e", 2.0))
        with postgresql.hung():
            stage.mark(1)
            stage.complete(1)
            assert not stage.is_drained()
            assert world.ask(stage, "a", "b", "c", "d") == [("a", 1.5), ("c", 3.0), ("d", None)]
        until(stage.is_drained)
        found = connection.exec_driver_sql("select k, v from limits order by k")
        assert [tuple(row) for row in found] == [("a", 1.5), ("c", 3.0), ("d", None), ("e", 2.0)]
        connection.exec_driver_sql("update limits set v = 7 where k = 'c'")
        until(lambda: world.ask(stage, "c") == [("c", 7.0)])
    engine.dispose()


def test_what_others_change_is_found_while_changes_come_without_end(world: World, monkeypatch: Any) -> None:
    stage = world.stage()
    write, slowness = DatabaseTable.write, threading.Event()

    def write_slowly(*given: Any) -> int:
        slowness.wait(0.2)
        return write(*given)

    monkeypatch.setattr(DatabaseTable, "write", write_slowly)
    numbers = itertools.count()

    def is_found_beside_a_change() -> bool:
        number = next(numbers)
        world.send(stage, "Put", ("a", float(number)))
        if number == 20:
            world.sql("insert into limits values ('x', 7)")
        return world.ask(stage, "x") == [("x", 7.0)]

    until(is_found_beside_a_change)


def test_errors_that_are_not_the_databases_are_told_and_lose_nothing(world: World, monkeypatch: Any) -> None:
    stage = world.stage()

    def fail(*_given: Any) -> None:
        raise RuntimeError("the driver's own")

    with monkeypatch.context() as broken:
        for name in ("write", "read"):
            broken.setattr(DatabaseTable, name, fail)
        world.send(stage, "Put", ("a", 1.0))
        until(lambda: ("T", "RuntimeError: the driver's own") in stage._stored.problems())
    until(stage.is_drained)
    assert world.rows() == [("a", 1.0)]


@pytest.mark.thorough
def test_a_stage_that_is_closed_writes_no_more_when_its_time_is_over(world: World, monkeypatch: Any) -> None:
    write, begun = DatabaseTable.write, threading.Event()

    def write_and_tell(*given: Any) -> int:
        begun.set()
        return write(*given)

    monkeypatch.setattr(DatabaseTable, "write", write_and_tell)
    stage = world.stage(stop_timeout_ms=200)
    with world.engine.connect() as other:
        other.exec_driver_sql("begin exclusive")
        world.send(stage, "Put", ("a", 1.0))
        assert begun.wait(PATIENCE_S)
        world.send(stage, "Put", *((f"b{number}", 1.0) for number in range(10)))
        stage.close()
        other.exec_driver_sql("rollback")
    (keeper,) = stage._stored._keepers.values()
    keeper._thread.join(PATIENCE_S)
    assert world.rows() == [("a", 1.0)]


def test_a_stage_that_cannot_begin_leaves_no_connection(world: World, postgresql: PostgresqlServer) -> None:
    url = postgresql.emptied()
    engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")
    others = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
    with engine.connect() as connection:
        connection.exec_driver_sql("create table limits (k text)")
        before = connection.exec_driver_sql(others).scalar_one()
        with pytest.raises(TopologyError):
            world.stage(store=f"jdbc.url='jdbc:{url}'")
        world.stages.pop().close()
        until(lambda: connection.exec_driver_sql(others).scalar_one() == before)
    engine.dispose()


def test_rows_whose_key_is_null_in_part_are_changed_and_deleted(world: World) -> None:
    world.sql("create table limits (k text, m text, v double)")
    world.sql("insert into limits values ('a', null, 1), ('a', 'm', 1), ('b', null, 1)")
    stage = world.stage(plan=MANY, key="@PrimaryKey('k', 'm')")
    world.send(stage, "Put", ("a", 2.0))
    world.send(stage, "Drop", ("b", 0.0))
    until(stage.is_drained)
    assert world.sql("select * from limits order by m") == [("a", None, 2.0), ("a", "m", 2.0)]


def test_a_row_that_may_not_go_holds_no_others_up(world: World) -> None:
    world.sql("create table limits (k text, v double)")
    world.sql("insert into limits values ('a', 1), ('b', 2), ('c', 3)")
    world.sql("create trigger stays before delete on limits when old.k = 'b' begin select raise(abort, 'used'); end")
    stage = world.stage(key="")
    world.send(stage, "Drop", ("a", 0.0), ("b", 0.0))
    world.send(stage, "Add", ("d", 4.0))
    until(stage.is_drained)
    assert world.rows() == [("b", 2.0), ("c", 3.0), ("d", 4.0)]
    assert stage._stored.refused_rows() == 1


def test_whole_numbers_are_not_made_of_others(world: World) -> None:
    world.sql("create table limits (k text primary key, v double)")
    world.sql("insert into limits values ('a', 2), ('b', null)")
    text = PLAN.replace("v double", "v int")
    assert not list(world.stage(plan=text)._stored.problems())
    world.sql("update limits set v = 1.5")
    with pytest.raises(TopologyError, match="column v of the table limits contains values that are not int32"):
        world.stage(plan=text)


def test_stages_that_begin_at_one_moment_make_a_table_between_them(world: World, postgresql: PostgresqlServer) -> None:
    store = f"jdbc.url='jdbc:{postgresql.emptied()}'"

    def begin(_number: int) -> Processor:
        return world.stage(store=store, delivery="exactly-once")

    with ThreadPoolExecutor(8) as threads:
        assert len(list(threads.map(begin, range(8)))) == 8


def test_rows_that_a_table_had_before_it_had_a_store_are_told(world: World) -> None:
    stage = world.stage(bare=True)
    world.send(stage, "Put", ("a", 1.0), ("b", 1.0))
    stage = world.stage(stage.snapshot())
    assert stage.left == ("P#0: 2 rows of the table T that were in memory: it has those of its store",)
    assert world.ask(stage, "a", "b") == []
    assert world.stage(stage.snapshot()).left == ()


def test_the_schema_of_a_jdbc_url_is_where_the_table_is(world: World, postgresql: PostgresqlServer) -> None:
    url = postgresql.emptied()
    engine = sqlalchemy.create_engine(url.replace(":", "+psycopg:", 1), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("create schema stocks")
        connection.exec_driver_sql("create table stocks.limits (k text primary key, v real)")
        connection.exec_driver_sql("insert into stocks.limits values ('a', 1)")
        stage = world.stage(store=f"jdbc.url='jdbc:{url}?currentSchema=stocks'")
        assert world.ask(stage, "a") == [("a", 1.0)]
        world.stages.remove(stage)
        stage.close()
        connection.exec_driver_sql("drop schema stocks cascade")
    engine.dispose()


def test_rows_without_a_key_are_found_by_indexes(world: World, postgresql: PostgresqlServer) -> None:
    stage = world.stage(store=f"jdbc.url='jdbc:{postgresql.emptied()}'", key="")
    statements: list[str] = []
    engine = stage._stored._databases["T"]._engine
    sqlalchemy.event.listen(engine, "before_cursor_execute", lambda _c, _u, text, *_others: statements.append(text))
    nan = float("nan")
    world.send(stage, "Add", ("a", 1.0), ("b", None), ("c", nan))
    until(stage.is_drained)
    world.send(stage, "Put", ("a", 2.0))
    world.send(stage, "Drop", ("b", 0.0))
    until(stage.is_drained)
    assert not any("DISTINCT FROM" in text for text in statements)
    world.send(stage, "Drop", ("c", 0.0))
    until(stage.is_drained)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("select k, v from limits").all()
    assert [tuple(row) for row in found] == [("a", 2.0)]
