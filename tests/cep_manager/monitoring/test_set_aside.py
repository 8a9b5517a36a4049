"""What workers have set aside, through the manager: the right worker is found, an id that nobody knows is told."""

from __future__ import annotations

import pytest
from test_failed_event_calls import FakeWorker

from cep_common.protocol.registry import RegisterWorker
from cep_manager.errors import UnknownAsideError, WorkerFailedError
from cep_manager.monitoring.set_aside.client import AsideStores

ENTRY = {
    "id": "aa", "kind": "log", "plan": "Gone", "stream": "Departures", "events": 12, "since_ms": 5, "until_ms": 9,
    "reason": "its plan is missing",
}  # fmt: skip


def answering(name: str, since_ms: int) -> FakeWorker:
    one = FakeWorker(name)
    one.answers["/wal"] = {"entries": [{**ENTRY, "id": name * 2, "since_ms": since_ms}]}
    for action in ("restore", "discard"):
        for id_ in ("aa", "bb"):
            one.answers[f"/wal/{id_}/{action}"] = {"id": id_, "events": 12, "left": 0, "lost": 0}
    return one


def stores(*workers: RegisterWorker) -> AsideStores:
    return AsideStores(workers, -1234, "Bearer x")


def test_what_all_workers_have_set_aside_is_listed_oldest_first() -> None:
    a, b = answering("a", 7), answering("b", 5)
    told = stores(a.registered, b.registered).listed()
    assert [(one.id, one.worker, one.events) for one in told.entries] == [("bb", "b", 12), ("aa", "a", 12)]
    assert a.asked[0][2]["tenant"] == "-1234"
    a.close()
    b.close()


def test_an_id_that_no_worker_knows_is_told_apart_from_a_worker_that_fails() -> None:
    a, b = FakeWorker("a"), answering("b", 5)
    a.status = 404
    a.answers["/wal/bb/restore"] = a.answers["/wal/aa/discard"] = {"code": "unknown-id", "message": "nothing here"}
    done = stores(a.registered, b.registered).restore("bb")
    assert (done.worker, done.events, done.left) == ("b", 12, 0)
    with pytest.raises(UnknownAsideError):
        stores(a.registered).discard("aa")
    a.answers["/wal/aa/discard"] = {"code": "no-room", "message": "busy"}
    with pytest.raises(WorkerFailedError, match="busy"):
        stores(a.registered).discard("aa")
    a.close()
    b.close()
