"""Live tails over made-up subscriptions: bounded, counted, closed."""

import queue
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from cep_common.clock import SystemClock
from cep_common.errors import InputError, PeerError
from cep_common.ids import Endpoint
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.links import Data, StreamSchema, Subscribe, Subscribed
from cep_common.security.config import SecurityConfig
from cep_common.security.context import open_context
from cep_common.security.keys import write_keys
from cep_common.security.roles import Role, SocketKind
from cep_common.sockets.transport import listening_socket
from cep_manager.config import TailConfig
from cep_manager.errors import BadRequestError, TailsBusyError, WorkerFailedError
from cep_manager.events.model import TailFilter, TailReport
from cep_manager.events.tails import StreamTail, Tails, listen_with
from topology.events.frames import arrow_schema, encode_batch

SCHEMA = arrow_schema(StreamSchema("S", (("n", "long"),)))
WORKERS = (Endpoint("a", 1), Endpoint("b", 2))


def batch(*numbers: int) -> pa.RecordBatch:
    arrays = [pa.array([1_000] * len(numbers)), pa.array([0] * len(numbers), pa.int8()), pa.array(numbers, pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class Subscription:
    """Gives what is put in; an exception is raised."""

    def __init__(self) -> None:
        self.arrow_schema = SCHEMA
        self.coming: queue.SimpleQueue[pa.RecordBatch | Exception] = queue.SimpleQueue()
        self.closed = False

    def receive(self, timeout_ms: int | None = None) -> pa.RecordBatch | None:
        try:
            come = self.coming.get(timeout=(timeout_ms or 0) / 1_000)
        except queue.Empty:
            return None
        if isinstance(come, Exception):
            raise come
        return come

    def close(self) -> None:
        self.closed = True


class Network:
    """Endpoints that can be listened to; those in `refusing` refuse."""

    def __init__(self, *refusing: str) -> None:
        self.refusing = refusing
        self.opened: list[Subscription] = []

    def listen(self, endpoint: Endpoint, stream: str, tenant: int) -> Subscription:
        if endpoint.host in self.refusing:
            raise InputError("unknown-stream", f"{stream} of {tenant} is unknown")
        self.opened.append(Subscription())
        return self.opened[-1]


def tails(network: Network, **settings: int) -> Tails:
    return Tails(TailConfig(**settings), SystemClock(), network.listen)


def until_seen(tail: StreamTail, count: int) -> TailReport:
    """All that was told until `count` events were seen, as one report."""
    events = []
    while True:
        report = tail.take(0.05)
        events += report.events
        if report.seen >= count or report.ended:
            return TailReport(events, report.seen, report.matched, report.shown, report.ended)


def test_a_tail_tells_the_events_of_all_workers() -> None:
    network = Network()
    with tails(network).open(WORKERS, "S", 7, None) as tail:
        network.opened[0].coming.put(batch(1, 2))
        network.opened[1].coming.put(batch(3))
        report = until_seen(tail, 3)
    assert sorted(event["n"] for event in report.events) == [1, 2, 3]
    assert (report.seen, report.matched, report.shown, report.ended) == (3, 3, 3, "")
    assert all(one.closed for one in network.opened)


def test_what_passes_beyond_the_allowance_is_counted_and_not_shown() -> None:
    network = Network()
    with tails(network, events_per_s=5).open(WORKERS[:1], "S", 7, TailFilter("n", "ge", "100")) as tail:
        network.opened[0].coming.put(batch(*range(1_100)))
        report = until_seen(tail, 1_100)
    assert (report.seen, report.matched, report.shown) == (1_100, 1_000, 5)
    assert [event["n"] for event in report.events] == [100, 300, 500, 700, 900]


def test_a_tail_ends_with_the_reason_when_a_worker_goes() -> None:
    network = Network()
    with tails(network).open(WORKERS, "S", 7, None) as tail:
        network.opened[1].coming.put(PeerError("the worker at b:2 is gone"))
        assert until_seen(tail, 1).ended == "the worker at b:2 is gone"


def test_a_tail_ends_after_its_time() -> None:
    with tails(Network(), longest_ms=1_000).open(WORKERS, "S", 7, None) as tail:
        assert "the time limit for watching is reached" in until_seen(tail, 1).ended


def test_so_many_tails_at_once_and_no_more() -> None:
    several = tails(Network(), at_once=1)
    first = several.open(WORKERS, "S", 7, None)
    with pytest.raises(TailsBusyError, match="1 streams are being watched"):
        several.open(WORKERS, "S", 7, None)
    first.close()
    several.open(WORKERS, "S", 7, None).close()
    with pytest.raises(TailsBusyError, match=r"tail\.at_once"):
        tails(Network(), at_once=0).open(WORKERS, "S", 7, None)


def test_what_cannot_be_watched_leaves_nothing_open() -> None:
    network = Network("b")
    several = tails(network, at_once=1)
    for _ in range(2):  # a second time: the place is free again
        with pytest.raises(WorkerFailedError, match="S of 7 is unknown"):
            several.open(WORKERS, "S", 7, None)
        with pytest.raises(BadRequestError):
            several.open(WORKERS[:1], "S", 7, TailFilter("m", "eq", "1"))
    assert all(one.closed for one in network.opened)


def test_a_manager_listens_at_workers_under_its_own_keys(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys")
    security = SecurityConfig(str(tmp_path / "keys"))
    context = open_context(security, Role.WORKER)
    schema = StreamSchema("S", (("n", "long"),))
    with listening_socket(context, SocketKind.EGRESS, "127.0.0.1", 1_000) as egress, ThreadPoolExecutor(1) as worker:
        port = egress.bind_to_random_port("tcp://127.0.0.1")

        def serve() -> Subscribe:
            assert egress.poll(5_000)
            peer, *frames = egress.recv_multipart()
            egress.send_multipart([peer, *encode(Subscribed(schema))])
            egress.send_multipart([peer, *encode(Data("S", 1, 1, 0), bodies=(encode_batch(batch(7)),))])
            asked = decode(frames).message
            assert isinstance(asked, Subscribe)
            return asked

        serving = worker.submit(serve)
        one = Tails(TailConfig(), SystemClock(), listen_with(security))
        with one.open((Endpoint("127.0.0.1", port),), "S", 7, None) as tail:
            assert [event["n"] for event in until_seen(tail, 1).events] == [7]
        assert serving.result() == Subscribe("S", 7)
    context.destroy(linger=0)
