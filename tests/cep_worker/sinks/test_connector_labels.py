"""Labels of connectors: each keeps what is stored under its label, however the plan around it is edited."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
import zmq
from worker_world import DEADLINE_MS, KEY, PLAN, alerts, lonely_topics, now_ms

from cep_common.configuration.secrets import Secrets
from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector
from cep_common.reach.guard import Guard, Reach
from cep_worker.config import ErrorsConfig
from cep_worker.connector_runtime.labels import ConnectorLabels, PlanLabels, assigned
from cep_worker.connector_runtime.running_sinks import SinkSupervisor
from cep_worker.failed_events.store import FailedEventStore
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.plans.streams import PlanStream, StreamDirectory
from cep_worker.runtime.event_loop import EventLoop

FIRST, SECOND = (GroupId(KEY, "publisher#0", 7, 0, number, "log") for number in (1, 2))


def sink(options: str, kind: str = "rdbms", stream: str = "Alerts") -> Connector:
    """A connector with options such as `table=a url=b`."""
    return Connector(stream, kind, dict(one.split("=") for one in options.split()), "", {})


A, B, C = sink("url=x table=a"), sink("url=x table=b"), sink("url=z table=c retry=5")
DIFFERENT = Connector("Alerts", "rdbms", {"url": "z", "table": "c"}, "xml", {})
"""It has nothing in common with the others."""
EDITED_A, EDITED_B = sink("url=x table=a retry=1"), sink("url=x table=b retry=1")


@pytest.mark.parametrize(
    ("edits", "labels"),
    [
        (((A, B), (B,)), ["rdbms#2"]),
        (((A, B), (B, A)), ["rdbms#2", "rdbms"]),
        (((A, B), (C, A, B)), ["rdbms#3", "rdbms", "rdbms#2"]),
        (((A, B), (B,), (B, C)), ["rdbms#2", "rdbms#3"]),
        (((A, B), (B,), (C, B)), ["rdbms#3", "rdbms#2"]),
        (((A, B), (B,), (A, B)), ["rdbms", "rdbms#2"]),
        (((A, B), (EDITED_B,)), ["rdbms#2"]),
        (((A, B), (EDITED_B, EDITED_A)), ["rdbms#2", "rdbms"]),
        (((A, B), (EDITED_A, B)), ["rdbms", "rdbms#2"]),
        (((A,), (C,)), ["rdbms"]),
        (((A,), (DIFFERENT,)), ["rdbms#2"]),
        (((A, A), (A,)), ["rdbms"]),
        (((A,), (A, A)), ["rdbms", "rdbms#2"]),
        (((A, sink("x=1", "http")), (sink("x=1", "http"), A)), ["http", "rdbms"]),
        (((A, sink("url=x table=b", stream="Other")), (sink("url=x table=b", stream="Other"),)), ["rdbms"]),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_a_connector_keeps_its_label_through_edits(
    tmp_path: Path, edits: tuple[tuple[Connector, ...], ...], labels: list[str], restarts: bool
) -> None:
    known = ConnectorLabels(str(tmp_path), "sink")
    running: list[tuple[Connector, str]] = []
    for connectors in edits:
        if restarts:
            known, running = ConnectorLabels(str(tmp_path), "sink"), []
        wanted = []
        for one in connectors:
            same = next((other for other in running if other[0] == one), (one, ""))
            running = [other for other in running if other is not same]
            wanted.append(same)
        found = known.assign(KEY, wanted, ())
        running = list(zip(connectors, found, strict=True))
    assert found == labels


def test_a_label_of_an_artefact_at_the_same_stream_is_left_alone() -> None:
    after = assigned(PlanLabels(), [(A, ""), (B, "")], [("Alerts", "rdbms#2"), ("Other", "rdbms")])
    assert [one.label for one in after.present] == ["rdbms", "rdbms#3"]


def test_passwords_are_not_in_the_file(tmp_path: Path) -> None:
    ConnectorLabels(str(tmp_path), "sink").assign(KEY, [(sink("url=x password=open-sesame"), "")], ())
    texts = [path.read_text() for path in (tmp_path / "labels").iterdir()]
    assert texts
    assert not [one for one in texts if "open-sesame" in one]


def test_a_file_that_cannot_be_written_is_reported_and_costs_no_labels(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "labels").write_text("not a folder")
    known = ConnectorLabels(str(tmp_path), "sink")
    assert known.assign(KEY, [(A, ""), (B, "")], ()) == ["rdbms", "rdbms#2"]
    assert "labels of sinks cannot be saved" in caplog.text


def test_labels_of_undeployed_plans_are_deleted_and_others_stay(tmp_path: Path) -> None:
    other = PlanKey(KEY.tenant, "Other")
    known = ConnectorLabels(str(tmp_path), "sink")
    for key in (KEY, other):
        known.assign(key, [(A, ""), (B, "")], ())
    known.delete({KEY})
    left = set((tmp_path / "labels").iterdir())
    assert len(left) == 2, "a file and its copy"
    known.delete({KEY})
    assert known.assign(KEY, [(B, "")], ()) == ["rdbms"], "a plan that is deployed again begins again"
    assert len(list((tmp_path / "labels").iterdir())) == 4
    known.delete({KEY})
    assert set((tmp_path / "labels").iterdir()) == left
    assert ConnectorLabels(str(tmp_path), "sink").assign(other, [(B, "")], ()) == ["rdbms#2"]


def test_plans_that_are_no_longer_listed_as_undeployed_are_forgotten(tmp_path: Path) -> None:
    """Labels that come back for such a plan are deleted when it is listed again."""
    known = ConnectorLabels(str(tmp_path), "sink")
    known.delete({KEY})
    known.delete(())
    ConnectorLabels(str(tmp_path), "sink").assign(KEY, [(A, "")], ())
    known.delete({KEY})
    assert list((tmp_path / "labels").iterdir()) == []


def test_labels_that_cannot_be_deleted_are_deleted_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = ConnectorLabels(str(tmp_path), "sink")
    known.assign(KEY, [(A, "")], ())
    (file,) = (tmp_path / "labels").glob("*.json")
    content = file.read_bytes()
    file.unlink()
    file.mkdir()
    known.delete({KEY})
    assert "labels of an undeployed plan cannot be deleted" in caplog.text
    file.rmdir()
    file.write_bytes(content)
    known.delete({KEY})
    assert not file.exists()


@contextmanager
def worker(folder: Path, context: zmq.Context[Any], *sinks: Connector) -> Iterator[tuple[SinkSupervisor, EventLoop]]:
    """The sinks of a plan in a process of its own."""
    loop = EventLoop()
    errors = FailedEventStore(ErrorsConfig(str(folder / "errors")), "worker-1", lambda: 0)
    guard = Guard(Reach(sink_urls=("*",), sink_folders=("/",)))
    running = SinkSupervisor(
        loop, context, "worker-1", 100, lambda: None, lonely_topics(), errors, guard, Secrets("", "secrets"),
        str(folder / "positions"),
    )  # fmt: skip
    running.apply(declared(*sinks), 0)
    yield running, loop
    running.close()
    for thread in [one for one in threading.enumerate() if one.name.startswith("sink @sink(type='rdbms')")]:
        thread.join(5)
    loop.close()
    errors.close()


def declared(*sinks: Connector) -> list[DeclaredConnector]:
    stream = StreamDirectory([PlanStream(KEY, PLAN.exported[0])]).own(KEY, "Alerts")
    return [DeclaredConnector(one, stream, KEY, delivery="exactly-once") for one in sinks]


def give(running: SinkSupervisor, loop: EventLoop, place: int, group: GroupId, late: int) -> None:
    """The sink at that place of the plan has the group."""
    done: list[int] = []
    end_ms = now_ms() + DEADLINE_MS
    tap = running.taps(KEY, "Alerts")[place]
    tap.offer(alerts((1, "UA", late)), None, DeliveryReceipt(1, lambda: done.append(1)), FrameId(group, 1))
    tap.commit(group, DeliveryReceipt(1, lambda: done.append(1)))
    while len(done) < 2:
        assert now_ms() < end_ms, "the sink does not deliver"
        loop.turn(5, now_ms)


def test_a_sink_gets_its_results_after_an_edit_removed_the_one_before_it(
    tmp_path: Path, context: zmq.Context[Any]
) -> None:
    url = f"sqlite:///{tmp_path}/alerts.db"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("create table alerts (carrier text, late bigint)"))
    one, other = (
        Connector("Alerts", "rdbms", {"url": url, "table.name": "alerts", "on.error": error}, "", {})
        for error in ("LOG", "STORE")
    )
    with worker(tmp_path, context, one, other) as (running, loop):
        give(running, loop, 0, FIRST, 1)
        give(running, loop, 0, SECOND, 2)
        give(running, loop, 1, FIRST, 1)
    with worker(tmp_path, context, other) as (running, loop):
        give(running, loop, 0, FIRST, 1)  # comes again: it is there
        give(running, loop, 0, SECOND, 2)
    with engine.begin() as connection:
        found = connection.execute(sqlalchemy.text("select late from alerts order by rowid")).scalars().all()
    engine.dispose()
    assert found == [1, 2, 1, 2]
