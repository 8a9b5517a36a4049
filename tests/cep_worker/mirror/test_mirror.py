"""A sender and a receiver over a real socket: the passive node's files are those of the active one."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
import zmq
from free_ports import free_port

from cep_common.ids import Endpoint, PlanKey
from cep_common.nodes.config import WorkerNode
from cep_common.nodes.files import MIRROR_FILE, ROLE_FILE, FileView, MirrorReport, NodeRole, write_file
from cep_common.nodes.role_watch import RoleWatch, monotonic_ms
from cep_common.protocol.links import StreamSchema
from cep_common.protocol.registry import StreamBinding
from cep_worker.inflows.batching import QueuedBatch
from cep_worker.inflows.logged_backlog import LoggedBacklog
from cep_worker.inflows.wal.identity import new_identity
from cep_worker.inflows.wal.log import LogLimits, StreamLog
from cep_worker.mirror.receiver import Copy, MirrorReceiver
from cep_worker.mirror.sender import MirrorSender
from cep_worker.storage.file_changes import FileChanges
from cep_worker.storage.group_commit import DiskSync
from topology.events.frames import arrow_schema

PATIENCE_S = 10.0


class ActiveNode:
    """A node that holds the lease, whose manager records what its worker asks for."""

    def __init__(self, folder: Path, port: int, stack: ExitStack, **settings: object) -> None:
        self.folder = folder
        self.port = port
        self.state = folder / "state"
        self.state.mkdir(parents=True)
        self.fenced: list[int] = []
        self.answers = True
        self.in_sync = False
        self.tell()
        context = zmq.Context[zmq.Socket[bytes]]()
        stack.callback(context.destroy, linger=0)
        watch = RoleWatch(str(folder), self.fenced.append)
        stack.callback(watch.close)
        assert watch.await_active(_Never())
        config = WorkerNode(
            folder=str(folder),
            state=str(self.state),
            timeout_ms=300,
            **settings,  # type: ignore[arg-type]
        )
        self.changes = FileChanges(self.state)
        self.sender = MirrorSender(config, context, watch, self.changes, time.time_ns, self.fenced.append)
        self._view = FileView(folder / MIRROR_FILE, MirrorReport)
        self._answered = 0

    def tell(self, token: int = 1) -> None:
        self.token = token
        answered = getattr(self, "_answered", 0)
        role = NodeRole(
            "a", token, monotonic_ms() + 60_000, "b", Endpoint("127.0.0.1", self.port), self.in_sync, answered,
            os.getpid(),
        )  # fmt: skip
        write_file(self.folder / ROLE_FILE, role)

    def report(self) -> MirrorReport | None:
        """What the worker says; the manager answers it."""
        report = self._view.read()
        if report is not None and self.answers and report.request > self._answered:
            self._answered, self.in_sync = report.request, report.wants_in_sync
            self.tell()
        return report

    def until(self, state: str) -> None:
        wait_for(lambda: (report := self.report()) is not None and report.state == state, state)

    def append(self, name: str, data: bytes) -> None:
        path = self.state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(data)
        self.changes.note(path, path.stat().st_size)


class _Never:
    def wait(self, _timeout: float) -> bool:
        return False


def wait_for(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.01)


class PassiveNode:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self._context = zmq.Context[zmq.Socket[bytes]]()
        self.receiver = MirrorReceiver(self._context, "127.0.0.1", port, Copy(folder, 0), lambda: "b")
        self.receiver.start()

    def close(self) -> None:
        self.receiver.close()
        self._context.destroy(linger=0)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def started(tmp_path: Path, stack: ExitStack, **settings: object) -> tuple[ActiveNode, PassiveNode]:
    port = free_port()
    active = ActiveNode(tmp_path / "a", port, stack, **settings)
    passive = PassiveNode(tmp_path / "b" / "state", port)
    stack.callback(active.sender.close)
    return active, passive


def test_what_was_there_and_what_changes_is_on_the_passive_node_before_it_is_acknowledged(
    tmp_path: Path, stack: ExitStack
) -> None:
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    (passive.folder / "w").mkdir(parents=True)
    (passive.folder / "w" / "0.segment").write_bytes(b"other than it is now")
    (passive.folder / "gone.json").write_bytes(b"{}")
    active.append("w/0.segment", b"before" * 1_000)
    (active.state / "w" / "log.json").write_bytes(b"{}")
    active.sender.start()
    active.until("protected")
    copy = passive.folder / "w" / "0.segment"
    done: list[int] = []
    for number in range(50):
        active.append("w/0.segment", b"%d" % number)
        size = (active.state / "w" / "0.segment").stat().st_size
        active.sender.when_mirrored(lambda size=size: done.append(copy.stat().st_size - size))  # type: ignore[misc]
    wait_for(lambda: len(done) == 50, "acknowledged")
    assert min(done) >= 0
    (active.state / "w" / "log.json").unlink()
    wait_for(lambda: files(passive.folder) == files(active.state), "equal folders")


def test_nothing_is_acknowledged_alone_before_the_database_knows(tmp_path: Path, stack: ExitStack) -> None:
    active, passive = started(tmp_path, stack)
    active.sender.start()
    active.until("protected")
    assert active.in_sync
    active.answers = False
    passive.close()
    done: list[str] = []
    active.append("0.segment", b"event")
    active.sender.when_mirrored(lambda: done.append("alone"))
    active.until("leaving")
    assert not done
    active.answers = True
    active.until("alone")
    assert done == ["alone"]
    assert not active.in_sync


def test_a_passive_node_that_returns_catches_up(tmp_path: Path, stack: ExitStack) -> None:
    active, passive = started(tmp_path, stack)
    active.sender.start()
    active.until("protected")
    passive.close()
    active.until("alone")
    active.append("0.segment", b"x" * 20_000_000)  # more than one batch
    again = PassiveNode(passive.folder, active.port)
    stack.callback(again.close)
    active.until("protected")
    assert files(again.folder) == files(active.state)


def test_a_node_that_was_active_before_is_fenced(tmp_path: Path, stack: ExitStack) -> None:
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    active.sender.start()
    active.until("protected")
    passive.receiver.token = 2  # another node has claimed the lease, and has mirrored to it
    done: list[str] = []
    active.append("0.segment", b"event")
    active.sender.when_mirrored(lambda: done.append("acknowledged"))
    wait_for(lambda: bool(active.fenced), "fenced")
    assert not done


def test_a_process_whose_lease_is_over_acknowledges_nothing(tmp_path: Path, stack: ExitStack) -> None:
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    active.sender.start()
    active.until("protected")
    active.tell(token=5)
    wait_for(lambda: bool(active.fenced), "ended")
    done: list[str] = []
    active.sender.when_mirrored(lambda: done.append("acknowledged"))
    time.sleep(0.3)
    assert not done


def test_a_process_whose_lease_is_over_sends_nothing(tmp_path: Path, stack: ExitStack) -> None:
    """It may have been stopped while the other node was active and got events that these would replace."""
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    active.sender.start()
    active.until("protected")
    active.answers = False
    active.tell(token=5)
    wait_for(lambda: bool(active.fenced), "ended")
    active.append("0.segment", b"stale")

    def left() -> bool:
        report = active.report()
        return report is not None and report.reason == "this node is no longer active"

    wait_for(left, "lost")
    assert "0.segment" not in files(passive.folder)


def test_asynchronous_mirroring_acknowledges_at_once_up_to_its_bound(tmp_path: Path, stack: ExitStack) -> None:
    active, passive = started(tmp_path, stack, mirror="async", queue=3)
    active.sender.start()
    active.until("protected")
    active.answers = False
    passive.close()
    done: list[int] = []
    for number in range(5):
        active.append("0.segment", b"event")
        active.sender.when_mirrored(lambda number=number: done.append(number))  # type: ignore[misc]
    assert done == [0, 1, 2]
    wait_for(lambda: (report := active.report()) is not None and report.could_lose == 3, "three could be lost")
    active.answers = True
    active.until("alone")
    assert done == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "a/../../b", "", "a//b", "."])
def test_a_path_outside_of_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    from cep_worker.mirror.folders import below  # noqa: PLC0415

    with pytest.raises(ValueError, match="not a path in"):
        below(tmp_path, name)


def test_events_are_not_processed_before_the_passive_node_has_them(tmp_path: Path) -> None:
    class Slow(DiskSync):
        mirrors = True

        def __init__(self) -> None:
            self.calls: list[Callable[[], None]] = []

        def when_safe(self, call: Callable[[], None]) -> None:
            self.calls.append(call)

    slow = Slow()
    attributes = (("number", "long"),)
    identity = new_identity(PlanKey(-1234, "P"), StreamBinding("S", "S:1.0.0", attributes))
    backlog = LoggedBacklog(StreamLog(tmp_path, identity, LogLimits(1 << 20, 1 << 18), slow), 100, lambda *_: 0)
    woken: list[int] = []
    backlog.wake = lambda: woken.append(1)
    backlog.resume(0, secures=True)
    schema = arrow_schema(StreamSchema("S", attributes))
    for number in (1, 2):
        columns = {"_timestamp": number, "_kind": 0, "number": number}
        batch = pa.RecordBatch.from_pylist([{name: columns.get(name, 0) for name in schema.names}], schema=schema)
        backlog.append(QueuedBatch(batch, backlog.prepare(batch, None)))
    assert backlog.take(100) is None
    slow.calls[0]()
    frame = backlog.take(100)
    assert frame is not None
    assert frame.rows == 1
    assert backlog.take(100) is None
    slow.calls[1]()
    assert woken == [1, 1]
    assert backlog.take(100) is not None
    backlog.close()


def test_the_manager_is_told_when_a_worker_has_left_and_the_passive_node_has_everything(
    tmp_path: Path, stack: ExitStack
) -> None:
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    active.sender.start()
    active.until("protected")
    active.append("w/0.segment", b"last")
    active.sender.close()
    assert active.report() is not None
    active.until("left")
    assert files(passive.folder) == files(active.state)


def test_a_worker_that_leaves_alone_does_not_say_that_the_other_node_has_everything(
    tmp_path: Path, stack: ExitStack
) -> None:
    active, passive = started(tmp_path, stack)
    passive.close()
    active.sender.start()
    active.until("alone")
    active.sender.close()
    active.until("alone")


def test_a_log_that_was_mirrored_and_is_deleted_goes_from_the_passive_node_too(
    tmp_path: Path, stack: ExitStack
) -> None:
    active, passive = started(tmp_path, stack)
    stack.callback(passive.close)
    active.sender.start()
    active.append("w/0.segment", b"delivered")
    active.append("w/1.segment", b"newer")
    active.until("protected")
    assert len(files(passive.folder)) == 2
    (active.state / "w" / "0.segment").unlink()
    wait_for(lambda: files(passive.folder) == files(active.state), "the copy would need ever more room")
