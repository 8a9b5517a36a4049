"""A plan whose table is in a database: its stage is killed, it is taken down, and the database has each change once."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from late_plan import CONNECT_TIMEOUT_S, POLL_S, departures, status_until

from cep_cli.plan_commands.plans import wait_until_connected
from cep_cli.system.local_system import LocalSystem
from cep_worker.ingest.event_sender import EventSender, fetch_schema
from topology.links.event_listener import EventListener

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

PLAN = "Delays"
TEXT = """\
@Plan:name('Delays') @Plan:delivery('exactly-once')
@Import('Departures:1.0.0') define stream Departures (carrier string, dep_delay int);
@Export('Late:1.0.0') define stream Late (carrier string, dep_delay int);
@Store(type='rdbms', url='sqlite:///{path}') @PrimaryKey('carrier')
define table Limits (carrier string, most int);
@Store(type='rdbms', url='sqlite:///{path}', table.name='seen')
define table Seen (carrier string, dep_delay int);
from Departures join Limits on Departures.carrier == Limits.carrier and Departures.dep_delay > Limits.most
select Departures.carrier as carrier, dep_delay insert into Late;
from Departures select carrier, dep_delay insert into Seen;
"""
RECOVERED_S = 90.0
POLL_MS = 200


class Database:
    def __init__(self, path: Path) -> None:
        self._engine = sqlalchemy.create_engine(f"sqlite:///{path}", isolation_level="AUTOCOMMIT")

    def sql(self, text: str) -> list[Any]:
        with self._engine.connect() as connection:
            found = connection.exec_driver_sql(text)
            return [tuple(row) for row in found] if found.returns_rows else []

    def seen_until(self, count: int) -> list[int]:
        """The delays in the table once there are so many, in order."""
        began = time.monotonic()
        while len(found := self.sql("select dep_delay from seen order by dep_delay")) < count:
            assert time.monotonic() - began < RECOVERED_S, found
            time.sleep(POLL_S)
        return [delay for (delay,) in found]


def send(system: LocalSystem, *delays: int) -> None:
    schema = fetch_schema(system.worker_http, f"{PLAN}/Departures")
    with EventSender(system.ingress, schema, "test") as sender:
        for delay in delays:
            sender.send(departures(sender, ("UA", delay)))


def late_until(listener: EventListener, delay: int) -> None:
    """Results come with the checkpoint that holds them."""
    began = time.monotonic()
    while time.monotonic() - began < RECOVERED_S:
        batch = listener.receive(POLL_MS)
        if batch is not None and delay in batch.column("dep_delay").to_pylist():
            return
    pytest.fail(f"{delay} did not come out")


def test_each_change_is_in_the_database_once_whatever_dies(system: LocalSystem, tmp_path: Path) -> None:
    database = Database(tmp_path / "world.db")
    database.sql("create table limits (carrier text primary key, most int)")
    database.sql("insert into limits values ('UA', 60)")
    system.client.deploy(TEXT.format(path=tmp_path / "world.db"), replace=False)
    wait_until_connected(system.client, PLAN, CONNECT_TIMEOUT_S)
    with EventListener(system.egress, f"{PLAN}/Late") as listener:
        send(system, 10, 70)
        late_until(listener, 70)
        assert database.seen_until(2) == [10, 70]
        assert system.client.query(PLAN, "from Seen select sum(dep_delay) as delays", 1)["rows"] == [[80]]

        (task,) = system.client.cluster()["tasks"]
        send(system, 20, 80)
        os.kill(task["process_id"], signal.SIGKILL)
        status_until(system, lambda now: now["topology"]["restarts"] == 1, RECOVERED_S, PLAN)
        wait_until_connected(system.client, PLAN, RECOVERED_S)
        late_until(listener, 80)
        database.sql("update limits set most = 5 where carrier = 'UA'")
        time.sleep(3.0)  # so that the rows have been read again
        send(system, 15)
        late_until(listener, 15)
    send(system, 90)
    system.client.undeploy(PLAN)
    assert database.seen_until(6) == [10, 15, 20, 70, 80, 90]
    time.sleep(2.0)
    assert database.seen_until(6) == [10, 15, 20, 70, 80, 90]
