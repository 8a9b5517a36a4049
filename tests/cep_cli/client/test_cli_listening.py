"""`cep listen` hears a stream wherever its publisher is connected to, and says why it hears nothing."""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
import pytest

from cep_cli.client.listening import LOOK_AGAIN_S, QUIET_S, REPEAT_S, StreamListener, why_quiet
from cep_common.errors import CepError, InputError, PeerError
from cep_common.ids import Endpoint


def batch(number: int) -> pa.RecordBatch:
    return pa.record_batch({"number": [number]})


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds


class Worker:
    """What a worker has to give; an error ends its subscription."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.waiting: deque[pa.RecordBatch | CepError] = deque()
        self.open = 0
        self.refusal: CepError | None = None

    def listen(self) -> Worker:
        if self.refusal is not None:
            raise self.refusal
        self.open += 1
        return self

    def receive(self, timeout_ms: int | None = None) -> pa.RecordBatch | None:
        self.time.now += (timeout_ms or 0) / 1_000
        if not self.waiting:
            return None
        found = self.waiting.popleft()
        if isinstance(found, CepError):
            raise found
        return found

    def close(self) -> None:
        self.open -= 1


class Cluster:
    def __init__(self, *names: str) -> None:
        self.time = Time()
        self.workers = {name: Worker(self.time) for name in names}
        self.told: list[str] = []
        self.listener = StreamListener(
            addresses=lambda: {name: Endpoint(name, 1) for name in self.workers},
            listen=lambda where: self.workers[where.host].listen(),
            quiet=lambda: "no events are published",
            tell=self.told.append,
            clock=self.time,
            pause=self.time.pass_by,
        )

    def heard(self, timeout_s: float) -> list[int]:
        return [one.column("number")[0].as_py() for one in self.listener.batches(timeout_s)]


def test_it_hears_the_worker_that_the_publisher_is_connected_to() -> None:
    cluster = Cluster("worker-1", "worker-2", "worker-3")
    cluster.workers["worker-3"].waiting.extend([batch(1), batch(2)])
    assert cluster.heard(1.0) == [1, 2]


def test_it_follows_a_publisher_that_moves_to_a_worker_that_has_just_come() -> None:
    cluster = Cluster("worker-1")
    cluster.workers["worker-1"].waiting.extend([batch(1), PeerError("worker-1 is gone")])
    batches = cluster.listener.batches(30.0)
    assert next(batches).column("number")[0].as_py() == 1
    del cluster.workers["worker-1"]
    cluster.workers["worker-2"] = Worker(cluster.time)
    cluster.workers["worker-2"].waiting.append(batch(2))
    assert next(batches).column("number")[0].as_py() == 2
    assert cluster.time.now < QUIET_S + LOOK_AGAIN_S
    assert any("worker-1 is gone" in one for one in cluster.told)
    assert "now also listening to worker-2" in cluster.told


def test_a_worker_that_never_rests_does_not_keep_another_from_being_heard() -> None:
    cluster = Cluster("worker-1", "worker-2")
    cluster.workers["worker-1"].waiting.extend(map(batch, range(100)))
    cluster.workers["worker-2"].waiting.append(batch(1_000))
    assert 1_000 in cluster.heard(1.0)[:3]


def test_a_worker_that_comes_while_another_never_rests_is_listened_to() -> None:
    cluster = Cluster("worker-1")
    cluster.workers["worker-1"].waiting.extend(map(batch, range(100)))
    batches = cluster.listener.batches(1.0)
    next(batches)
    cluster.workers["worker-2"] = Worker(cluster.time)
    cluster.workers["worker-2"].waiting.append(batch(1_000))
    cluster.time.pass_by(LOOK_AGAIN_S)
    assert 1_000 in [next(batches).column("number")[0].as_py() for _ in range(4)]


@pytest.mark.parametrize("code", ["schema-changed", "unknown-stream"])
def test_it_subscribes_again_where_plans_change(code: str) -> None:
    cluster = Cluster("worker-1")
    cluster.workers["worker-1"].waiting.extend([InputError(code, "subscribe again"), batch(7)])
    assert cluster.heard(3.0) == [7]


def test_a_listener_that_is_too_slow_is_told_so() -> None:
    cluster = Cluster("worker-1")
    cluster.workers["worker-1"].waiting.append(InputError("listener-too-slow", "5 s behind"))
    with pytest.raises(InputError, match="5 s behind"):
        cluster.heard(3.0)


def test_it_says_when_nothing_is_published_and_again_each_minute() -> None:
    cluster = Cluster("worker-1", "worker-2")
    assert cluster.heard(QUIET_S - 1) == []
    assert cluster.told == []
    assert cluster.heard(QUIET_S + REPEAT_S + 1) == []
    assert cluster.told == ["no events are published"] * 2


def test_a_stream_that_no_worker_knows_is_refused_at_once_and_without_workers_too() -> None:
    cluster = Cluster("worker-1")
    cluster.workers["worker-1"].refusal = InputError("unknown-stream", "there is no stream Ou; did you mean Out?")
    with pytest.raises(InputError, match="did you mean Out"):
        cluster.heard(1.0)
    with pytest.raises(PeerError, match="no worker is alive"):
        Cluster().heard(1.0)


def test_one_of_several_workers_that_cannot_be_reached_does_not_hide_the_others() -> None:
    cluster = Cluster("worker-1", "worker-2")
    cluster.workers["worker-1"].refusal = PeerError("no worker answers")
    cluster.workers["worker-2"].waiting.append(batch(1))
    assert cluster.heard(1.0) == [1]
    assert any("no worker answers" in one for one in cluster.told)


def serving(worker: str, publishers: list[Any], state: str = "live") -> dict[str, Any]:
    plan = {"plan": "Storms", "publishers": publishers, "outflow": [{"stream": "KnockOns", "received_events": 1_234}]}
    return {"worker": worker, "state": state, "plans": [plan]}


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "no worker is alive"),
        ([serving("worker-1", [{}], state="lost")], "no worker is alive"),
        ([{"worker": "worker-1", "state": "live", "plans": []}], "no worker serves a plan that exports it"),
        ([serving("worker-1", [])], "no publisher of Storms is connected to a worker; see `cep status Storms`"),
        (
            [serving("worker-1", []), serving("worker-2", [{}])],
            "no events are published on KnockOns:1.0.0 now: Storms sends its results to worker-2, 2,468 events so far",
        ),
    ],
)
def test_the_reason_why_nothing_comes(workers: list[Any], said: str) -> None:
    assert said in why_quiet("KnockOns:1.0.0", workers)
