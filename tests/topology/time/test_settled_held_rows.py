"""Rows that are settled while they wait: a restart from a checkpoint neither loses nor repeats one."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from topology_builders import bundle, numbers

from topology.acks import AckLedger
from topology.time.merger import EventTimeMerger

WINDOW = 8
SOURCE = "EventReceiver#0"
Row = tuple[int, int]


@dataclass
class Frame:
    """One row, and the watermark of all sources of the link after it."""

    row: Row
    watermark_ms: int


def frames_of(rows: int) -> list[Frame]:
    """All of a source that is ahead, then all of the one that is behind, whose time is the watermark."""
    ahead = [Frame((1_000 + time, time), 0) for time in range(rows)]
    return ahead + [Frame((time, rows + time), time) for time in range(rows)]


@dataclass
class Run:
    """A merger behind a link with a window; what it releases counts once the run has got to a checkpoint behind it."""

    frames: list[Frame]
    next_frame: int = 0
    released: list[Row] = field(default_factory=list)
    state: bytes = b""
    acknowledged: int = -1

    def __post_init__(self) -> None:
        self.merger = EventTimeMerger({"A": {SOURCE: SOURCE}}, 60_000)
        if self.state:
            self.merger.restore(self.state, {"A": numbers("A", []).schema}, 0)
        self.acknowledged = self.next_frame - 1
        self.acks = AckLedger()

    def has_room(self) -> bool:
        return self.next_frame - 1 - self.acknowledged < WINDOW

    def step(self) -> None:
        """Send a frame and release what it allows."""
        number, frame = self.next_frame, self.frames[self.next_frame]
        assert self.has_room(), "the link is blocked for ever"
        self.next_frame += 1
        self.acks.took(number)
        sent = bundle(
            ("A", [frame.row]), channel="a", watermark_ms=frame.watermark_ms, full=not self.has_room(),
            settled=lambda: self.settle(number),
        )  # fmt: skip
        self.merger.push(sent, 0)
        step = self.merger.release(0)
        for stream, batch in step.batches if step is not None else ():
            assert stream == "A"
            times, values = batch.column("_timestamp").to_pylist(), batch.column("number").to_pylist()
            self.released += zip(times, values, strict=True)
        for done in step.finished if step is not None else ():
            done.settle()
        self.merger.settle_choked()

    def settle(self, number: int) -> None:
        last = self.acks.settle(number)
        if last is not None:
            self.acknowledged = last


@pytest.mark.parametrize("seed", range(20))
def test_no_row_is_lost_or_repeated_by_a_restart_from_a_checkpoint(seed: int) -> None:
    chance, frames = random.Random(seed), frames_of(5 * WINDOW)  # noqa: S311 - a test
    run, checkpoint = Run(frames), (0, b"", 0)
    while run.next_frame < len(frames):
        run.step()
        if chance.random() < 0.1:
            checkpoint = (run.next_frame, run.merger.snapshot(), len(run.released))
        if chance.random() < 0.1:
            run = Run(frames, checkpoint[0], run.released[: checkpoint[2]], checkpoint[1])
    run.merger.push(bundle(channel="a", streams=("A",), watermark_ms=10_000), 0)
    step = run.merger.release(0)
    assert step is not None
    ((_, batch),) = step.batches
    run.released += zip(batch.column("_timestamp").to_pylist(), batch.column("number").to_pylist(), strict=True)
    assert run.released == sorted(frame.row for frame in frames)
