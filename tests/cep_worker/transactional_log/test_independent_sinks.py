"""Each consumer of a publisher's results has a place of its own in their log: one that takes nothing holds up no other
one, and none gets anything twice, also when the worker starts again. Files that are damaged meanwhile lose nothing
silently."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from test_prepared_results import ONCE
from worker_world import ALERTS, KEY, PLAN, alerts

from cep_common.protocol.links import Data, OpenLink, StreamSchema
from cep_common.protocol.registry import CheckpointSpan, Delivery, DeployedPlan, StreamBinding
from cep_worker.outflows.consumers import FrameId, GroupId
from cep_worker.outflows.receipts import DeliveryReceipt
from cep_worker.outflows.transactional_log import release
from cep_worker.outflows.transactional_log.file_sync import FileSync
from cep_worker.outflows.transactional_log.group_file import GroupReader
from cep_worker.outflows.transactional_log.prepared_results import CUT_BYTES, PreparedResults
from cep_worker.outflows.transactional_log.unlogged_frames import UnloggedFrame
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.runtime.event_loop import EventLoop
from topology.events.frames import encode_batch

EVERY_BYTES = 1 if os.environ.get("CEP_ACCEPTANCE") == "1" else 61
"""Every so manieth byte of a file is damaged in turn."""
LEAST = msgspec.structs.replace(PLAN, delivery="at-least-once")
OTHER = StreamSchema("Other", ALERTS)
STREAMS = (StreamSchema("Alerts", ALERTS), OTHER)


class Tap:
    """A consumer that takes while it is `open`, and settles at once unless it `hangs`."""

    lasting = True

    def __init__(self, name: str, form: str = "", *, lasting: bool = True) -> None:
        self.name = name
        self.form = form or name
        self.lasting = lasting
        self.open = True
        self.hangs = False
        self.commits = True
        """Otherwise it dies before it has committed anything."""
        self.got: list[int] = []
        self.committed: list[int] = []
        self.groups: list[GroupId] = []
        self._staged: list[int] = []
        self._receipts: list[DeliveryReceipt] = []

    def has_room(self) -> bool:
        return self.open

    def offer(self, batch: pa.RecordBatch, body: Any, receipt: DeliveryReceipt, frame: FrameId | None = None) -> None:
        events = batch.column("late").to_pylist()
        self.got += events
        self._staged += events if frame is not None else []
        self._settle(receipt)

    def commit(self, group: GroupId, receipt: DeliveryReceipt) -> None:
        if not self.commits:
            self._receipts.append(receipt)
            return
        if group not in self.groups:
            self.groups.append(group)
            self.committed += self._staged
        self._staged = []
        self._settle(receipt)

    def wake(self) -> None:
        self.open, self.hangs = True, False
        receipts, self._receipts = self._receipts, []
        for receipt in receipts:
            receipt.settle()

    def _settle(self, receipt: DeliveryReceipt) -> None:
        if self.hangs:
            self._receipts.append(receipt)
        else:
            receipt.settle()


class Desk:
    """A publisher's results in a folder, whose process starts again at times."""

    def __init__(self, folder: Path, plan: DeployedPlan, taps: dict[str, list[Tap]]) -> None:
        binding = StreamBinding("Other", "Other", ALERTS)
        self.plan = msgspec.structs.replace(plan, exported=(*plan.exported, binding))
        self.folder = folder
        self.taps = taps
        self.now_ms = 0
        self.counts = StreamCounts()
        self.opening = OpenLink("publisher#0", STREAMS, KEY, plan.epoch, attempt=0)
        self._event_loop = EventLoop()
        self._sync = FileSync(lambda call: call())
        self._next = self._marked = 0
        self.prepared = self._open()
        self.turn()

    def send(self, frames: int = 1, rows: int = 1, stream: str = "Alerts") -> None:
        for _ in range(frames):
            batch = alerts(*[(number, "UA", number) for number in range(self._next, self._next + rows)])
            self._next += rows
            message = Data(stream, 1, rows, 0, 7, self._next)
            if self.plan.delivery == "exactly-once":
                self.prepared.append(self.opening, message, batch, encode_batch(batch))
            else:
                self.prepared.append_at_once(self.opening, message, batch, encode_batch(batch))
            self.turn()

    def complete(self) -> None:
        """A checkpoint is complete."""
        self._marked += 1
        self.prepared.mark(self.opening, self._marked, lambda: None)
        self.prepared.apply_checkpoints((CheckpointSpan(self.plan.epoch, 0, self._marked),))
        self.turn()

    def turn(self, ms: int = 0) -> None:
        self.now_ms += ms
        for _ in range(5):
            self.prepared.retry()
            self._event_loop.turn(0, lambda: self.now_ms)

    def start_again(self, *, killed: bool = False, between: Callable[[], object] = lambda: None) -> None:
        if not killed:
            self.prepared.tick(self.now_ms)
        self.prepared.close()
        between()
        for tap in itertools.chain(*self.taps.values()):
            tap._receipts, tap._staged = [], []
        self.prepared = self._open()
        if self._marked:
            self.prepared.apply_checkpoints((CheckpointSpan(self.plan.epoch, 0, self._marked),))
        self.turn()

    def lost(self) -> int:
        self.prepared.tick(self.now_ms)
        return self.prepared.metrics().lost_events

    def files(self) -> list[Path]:
        return sorted(self.folder.glob("*/*/*.results"))

    def close(self) -> None:
        self.prepared.close()
        self._sync.close()
        self._event_loop.close()

    def _open(self) -> PreparedResults:
        return PreparedResults(
            self.folder, self.plan, self._event_loop, self._sync, lambda stream: self.taps.get(stream, []), 10**9,
            self.counts,
        )  # fmt: skip


Make = Callable[..., Desk]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[Desk] = []

    def make_one(plan: DeployedPlan, *taps: Tap, **of_streams: list[Tap]) -> Desk:
        made.append(Desk(tmp_path / str(len(made)), plan, {"Alerts": list(taps), **of_streams}))
        return made[-1]

    yield make_one
    for desk in made:
        desk.close()


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_sink_that_takes_nothing_holds_up_no_other_one(make: Make, delivery: Delivery) -> None:
    dead, sound, elsewhere = Tap("http"), Tap("file"), Tap("log")
    dead.open = False
    desk = make(msgspec.structs.replace(LEAST, delivery=delivery), dead, sound, Other=[elsewhere])
    for _ in range(4):
        desk.send(3)
        desk.send(1, stream="Other")
        if delivery == "exactly-once":
            desk.complete()
    assert sound.got == [0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14]
    assert elsewhere.got == [3, 7, 11, 15]
    assert not dead.got
    assert desk.counts.of("Alerts")[1] == 0, "what is delivered all have"
    assert desk.counts.of("Other")[1] == 4
    assert dict(desk.prepared.waiting_rows()) == {("Alerts", "http"): 12, ("Alerts", "file"): 0, ("Other", "log"): 0}
    dead.open = True
    desk.turn()
    assert dead.got == sound.got
    assert desk.counts.of("Alerts")[1] == 12
    assert desk.prepared.is_empty()
    assert desk.lost() == 0


@pytest.mark.parametrize("killed", [False, True], ids=["in order", "killed"])
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_no_sink_gets_anything_twice_when_the_worker_starts_again(make: Make, delivery: Delivery, killed: bool) -> None:
    dead, sound = Tap("http"), Tap("file")
    dead.open = False
    desk = make(msgspec.structs.replace(LEAST, delivery=delivery), dead, sound)
    for _ in range(3):
        desk.send(3)
        if delivery == "exactly-once":
            desk.complete()
        desk.prepared.tick(desk.now_ms)
        desk.start_again(killed=killed)
    assert sound.got == list(range(9))
    dead.open = True
    desk.turn()
    assert dead.got == sound.got == list(range(9))
    if delivery == "exactly-once":
        assert dead.committed == sound.committed == list(range(9))
    desk.start_again()
    assert dead.got == sound.got == list(range(9))
    assert desk.lost() == 0


def test_a_sink_that_has_part_of_a_file_goes_on_behind_it(make: Make) -> None:
    half, sound = Tap("http"), Tap("file")
    desk = make(LEAST, half, sound)
    sound.open = False
    desk.send(4)
    half.open = False
    desk.send(4)
    desk.start_again()
    half.open = sound.open = True
    desk.turn()
    assert half.got == sound.got == list(range(8))


def test_what_a_sink_took_and_did_not_deliver_comes_again(make: Make) -> None:
    hanging, sound = Tap("http"), Tap("file")
    hanging.hangs = True
    desk = make(LEAST, hanging, sound)
    desk.send(4)
    desk.start_again()
    hanging.wake()
    desk.turn()
    assert hanging.got == [0, 1, 2, 3, 0, 1, 2, 3]
    assert sound.got == [0, 1, 2, 3]


def test_a_group_that_a_sink_had_not_committed_comes_again_as_a_whole(make: Make) -> None:
    """The sink may have settled all frames of it: what was ready for its commit is gone with the process."""
    tap = Tap("rdbms")
    tap.commits = False
    desk = make(ONCE, tap)
    desk.send(3)
    desk.complete()
    assert tap.got == [0, 1, 2]
    desk.start_again()
    tap.commits = True
    desk.start_again()
    assert tap.committed == [0, 1, 2]
    assert desk.prepared.is_empty()


def test_offered_frames_that_some_have_delivered_go_to_the_others_alone_after_a_start(make: Make) -> None:
    dead, sound = Tap("http"), Tap("file")
    desk = make(LEAST, dead, sound)
    batch = alerts((0, "UA", 100))
    frame = UnloggedFrame(Data("Alerts", 1, 1, 0, 7, 0), batch, encode_batch(batch), frozenset({"http"}))
    kept = desk.prepared.keep_offered(desk.opening, [frame], lambda: None)
    dead.open = False
    desk.send(2)
    assert sound.got == [0, 1], "it has the offered one already"
    desk.start_again()
    assert sound.got == [0, 1]
    kept.settle("Alerts", "http")  # of the process before
    dead.open = True
    desk.turn()
    assert dead.got == [100, 0, 1]
    assert sound.got == [0, 1]


def test_offered_frames_are_deleted_when_the_last_consumer_has_delivered_them(make: Make) -> None:
    dead, sound = Tap("http"), Tap("file")
    desk = make(LEAST, dead, sound)
    batch = alerts((0, "UA", 100))
    frame = UnloggedFrame(Data("Alerts", 1, 1, 0, 7, 0), batch, encode_batch(batch), frozenset({"http"}))
    kept = desk.prepared.keep_offered(desk.opening, [frame, frame], lambda: None)
    desk.turn()
    assert not desk.prepared.is_empty()
    kept.settle("Alerts", "http")
    kept.settle("Alerts", "http")
    desk.turn()
    assert desk.prepared.is_empty()
    assert not dead.got


def test_a_sink_that_comes_later_gets_what_waits_and_a_listener_what_comes(make: Make) -> None:
    dead = Tap("http")
    dead.open = False
    desk = make(ONCE, dead)
    for _ in range(3):
        desk.send(2)
        desk.complete()
    listener = Tap("listener 1", lasting=False)
    desk.taps["Alerts"] = [Tap("file"), listener]
    desk.turn()
    assert desk.taps["Alerts"][0].got == list(range(6)), "the dead sink is gone, its successor has all"
    desk.send(2)
    desk.complete()
    assert listener.got == [6, 7]
    assert desk.prepared.is_empty()


def test_sinks_of_one_type_that_change_their_order_get_what_they_lack(make: Make) -> None:
    dead, sound = Tap("http", "dead"), Tap("http#2", "sound")
    dead.open = False
    desk = make(LEAST, dead, sound)
    desk.send(3)
    desk.start_again(between=lambda: exchange(dead, sound))
    dead.open = True
    desk.turn()
    assert dead.got == sound.got == [0, 1, 2]


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_what_a_sink_that_is_taken_out_does_not_get_is_told(
    make: Make, delivery: Delivery, caplog: pytest.LogCaptureFixture
) -> None:
    sound, dead = Tap("http"), Tap("http#2")
    dead.open = False
    desk = make(msgspec.structs.replace(LEAST, delivery=delivery), sound, dead)
    desk.send(3, rows=2)
    desk.complete()
    desk.send(2)  # of an exactly-once plan they stand with the next checkpoint, when the sink is gone
    desk.taps["Alerts"].remove(dead)
    desk.turn()
    told = [one.getMessage() for one in caplog.records if "was removed from the plan" in one.getMessage()]
    assert [one.partition("stream=")[2] for one in told] == ["Alerts sink=http#2 up to events=8"]


def test_a_sink_that_is_edited_while_the_worker_is_away_gets_what_its_former_form_lacked(make: Make) -> None:
    dead, sound = Tap("http", "old"), Tap("file")
    dead.open = False
    desk = make(LEAST, dead, sound)
    desk.send(3)
    edited = Tap("http", "new")
    desk.start_again(between=lambda: desk.taps.update(Alerts=[edited, sound]))
    assert edited.got == sound.got == [0, 1, 2]


def exchange(one: Tap, other: Tap) -> None:
    one.name, other.name = other.name, one.name


def test_a_dead_sink_leaves_few_files(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep_worker.outflows.transactional_log.prepared_results.CUT_BYTES", 4_096)
    dead, sound = Tap("http"), Tap("file")
    dead.open = False
    desk = make(LEAST, dead, sound)
    desk.send(100)
    assert sound.got == list(range(100))
    size = sum(path.stat().st_size for path in desk.files())
    assert len(desk.files()) <= size // 4_096 + 2
    assert CUT_BYTES > 4_096


def test_what_did_not_stand_is_passed_over_by_those_in_front_and_deleted_when_the_others_come(make: Make) -> None:
    dead, sound = Tap("http"), Tap("file")
    dead.open = False
    desk = make(ONCE, dead, sound)
    desk.send(2)
    desk.complete()
    desk.send(2)  # undone by a restart
    desk.opening = msgspec.structs.replace(desk.opening, attempt=1)
    desk._next = 2
    desk.send(2)
    desk.prepared.mark(desk.opening, 2, lambda: None)
    desk.prepared.apply_checkpoints((CheckpointSpan(7, 0, 1), CheckpointSpan(7, 1, 2)))
    desk.turn()
    assert sound.committed == [0, 1, 2, 3]
    dead.open = True
    desk.turn()
    assert dead.committed == [0, 1, 2, 3]
    assert desk.prepared.is_empty()
    assert desk.lost() == 0
    assert desk.counts.of("Alerts")[1] == 4


# ---- files that are damaged ------------------------------------------------------------------------------------------


def backlog(make: Make, delivery: Delivery) -> tuple[Desk, Tap]:
    """Four files of two frames of two events each, which a dead sink has not had."""
    dead = Tap("http")
    dead.open = False
    desk = make(msgspec.structs.replace(LEAST, delivery=delivery), dead)
    for _ in range(4):
        desk.send(2, rows=2)
        if delivery == "exactly-once":
            desk.complete()
        else:
            next(iter(desk.prepared._logs.values())).cut()
    desk.prepared.tick(desk.now_ms)
    return desk, dead


def check(desk: Desk, dead: Tap) -> None:
    """Each of the 16 events is delivered once, or counted as lost."""
    dead.open = True
    desk.turn()
    desk.turn(release.UNREADABLE_MS)
    got = dead.committed if desk.plan.delivery == "exactly-once" else dead.got
    assert len(set(got)) == len(got), "none twice"
    assert sorted(got) == got
    assert len(got) + desk.lost() >= 16, (got, desk.lost())
    assert desk.lost() <= 16 - len(got), "none is counted that came"


def flipped(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path, place: int) -> None:
    path.write_bytes(path.read_bytes()[:place])


def removed(path: Path, _place: int) -> None:
    path.unlink()


@pytest.mark.parametrize("running", [False, True], ids=["while it is away", "while it runs"])
@pytest.mark.parametrize("number", [0, 1, 3])
@pytest.mark.parametrize("damage", [removed, cut], ids=["removed", "emptied"])
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_a_file_that_is_gone_is_counted(
    make: Make, delivery: Delivery, damage: Callable[[Path, int], None], number: int, running: bool
) -> None:
    desk, dead = backlog(make, delivery)

    def do() -> None:
        damage(desk.files()[number], 0)

    if running:
        do()
    else:
        desk.start_again(between=do)
    check(desk, dead)
    assert desk.lost() == 4 or (running and number == 0), "what is open already may be read to its end"


def test_all_files_that_are_gone_are_counted(make: Make) -> None:
    desk, dead = backlog(make, "at-least-once")
    desk.start_again(between=lambda: [path.unlink() for path in desk.files()])
    check(desk, dead)
    assert desk.lost() == 16


@pytest.mark.parametrize("damage", [flipped, cut])
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_whatever_byte_of_a_file_is_damaged_each_event_comes_or_is_counted(
    make: Make, delivery: Delivery, damage: Callable[[Path, int], None]
) -> None:
    desk, _ = backlog(make, delivery)
    size = desk.files()[1].stat().st_size
    for number, place in enumerate(range(0, size, EVERY_BYTES)):
        desk, dead = backlog(make, delivery)
        if number % 2:
            damage(desk.files()[1], place)
        else:
            desk.start_again(between=lambda: damage(desk.files()[1], place))  # noqa: B023 - called at once
        check(desk, dead)
        desk.close()


@pytest.mark.parametrize("copy", ["whole", "damaged"])
def test_a_progress_file_that_is_damaged_loses_nothing(make: Make, copy: str, caplog: pytest.LogCaptureFixture) -> None:
    dead, sound = Tap("http"), Tap("file")
    dead.open = False
    desk = make(LEAST, dead, sound)
    desk.send(3)

    def damage() -> None:
        for path in desk.folder.glob("*/*/progress.json" if copy == "whole" else "*/*/progress.json*"):
            path.write_bytes(path.read_bytes()[:10])

    desk.start_again(between=damage)
    dead.open = True
    desk.turn()
    assert dead.got == [0, 1, 2]
    assert sound.got == ([0, 1, 2] if copy == "whole" else [0, 1, 2, 0, 1, 2]), "at least once"
    assert ("its copy is used" if copy == "whole" else "its copy cannot be read either") in caplog.text
    assert desk.lost() == 0


def test_a_disk_that_fails_for_a_while_loses_nothing_and_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, dead = backlog(make, "at-least-once")
    read = GroupReader.next

    def fail(_: GroupReader) -> Any:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(GroupReader, "next", fail)
    dead.open = True
    desk.turn(100)
    desk.turn(release.UNREADABLE_MS - 200)
    assert "Input/output error" in desk.prepared.problem
    monkeypatch.setattr(GroupReader, "next", read)
    desk.turn(100)
    assert dead.got == list(range(16))
    assert desk.lost() == 0
    assert not desk.prepared.problem


def test_what_a_disk_cannot_read_any_more_is_counted_and_set_aside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, dead = backlog(make, "at-least-once")
    read = GroupReader.next
    broken = desk.files()[1]

    def fail(reader: GroupReader) -> Any:
        if reader._group.path == broken:
            raise OSError(5, "Input/output error")
        return read(reader)

    monkeypatch.setattr(GroupReader, "next", fail)
    check(desk, dead)
    assert desk.lost() == 4
    assert dead.got == [0, 1, 2, 3, *range(8, 16)]
    assert [path.suffix for path in broken.parent.glob(f"{broken.stem}*")] == [".unreadable"]
