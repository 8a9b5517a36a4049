"""Whichever instances events come to, in whatever order the log has them: one alert each, from the right instance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np
import pyarrow as pa
import pytest

from siddhi.engine.jit.arrays import Int64Array
from topology.time.origins import OriginEngine

INSTANCES = 3
READINGS = (1, 3, 2, 4, 9)
"""The temperatures of up to five events."""


class Rule:
    """`e1=T, e2=T[e1.temp + 1 < temp]`, and a timer, written out: what an engine would find."""

    def __init__(self) -> None:
        self.last: int | None = None
        self.found: list[tuple[int, int]] = []
        self.ticks = 0
        self.clock_ms = 0

    def next_deadline_ms(self) -> int | None:
        return None

    def advance_time(self, now_ms: int) -> None:
        self.ticks += 1

    def send(self, stream: str, records: pa.RecordBatch, now_ms: int | None = None) -> None:
        assert (stream, records.schema.names) == ("T", ["temp"])
        for temp in records.column("temp").to_pylist():
            if self.last is not None and self.last + 1 < temp:
                self.found.append((self.last, temp))
            self.last = temp

    def send_merged(
        self, batches: Sequence[tuple[str, pa.RecordBatch]], sources: Int64Array, now_ms: int | None = None
    ) -> None:
        done = [0] * len(batches)
        for source in sources:
            self.send("T", batches[source][1].slice(done[source], 1))
            done[source] += 1


class Replica:
    """An instance: its engine, and what it gives out."""

    def __init__(self, index: int) -> None:
        self.rule = Rule()
        self.engine = OriginEngine(self.rule, index, INSTANCES, {"g.log.T": "T", "g.log.U": "T"})
        self.given: list[tuple[int, int]] = []
        self.rule.send = self._seen(self.rule.send)  # type: ignore[method-assign]

    def _seen(self, send: object) -> object:
        def seen(*arguments: object) -> None:
            before = len(self.rule.found)
            send(*arguments)  # type: ignore[operator]
            if self.engine.owns:
                self.given += self.rule.found[before:]

        return seen


def rows(log: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    temps, origins = zip(*log, strict=True)
    return pa.record_batch({"temp": pa.array(temps, pa.int64()), "_origin": pa.array(origins, pa.int32())})


def interleavings(queues: tuple[tuple[tuple[int, int], ...], ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Every order in which a log may get what the instances send, each in its own order."""
    if not any(queues):
        yield ()
    for place, queue in enumerate(queues):
        if queue:
            rest = (*queues[:place], queue[1:], *queues[place + 1 :])
            yield from ((queue[0], *later) for later in interleavings(rest))


@pytest.mark.parametrize("events", range(1, len(READINGS) + 1))
def test_every_interleaving_gives_the_alerts_of_one_engine_each_by_the_instance_of_its_last_event(events: int) -> None:
    tried = 0
    for origins in product(range(INSTANCES), repeat=events):
        queues = tuple(
            tuple((temp, origin) for temp, origin in zip(READINGS, origins, strict=False) if origin == instance)
            for instance in range(INSTANCES)
        )
        for log in interleavings(queues):
            pairs = [((first[0], then[0]), then[1]) for first, then in pairwise(log) if first[0] + 1 < then[0]]
            for index in range(INSTANCES):
                replica = Replica(index)
                split = tried % len(log)  # bundles of a replica may end anywhere
                for part in (log[:split], log[split:]):
                    if part:
                        replica.engine.send("g.log.T", rows(part))
                assert replica.given == [alert for alert, owner in pairs if owner == index]
                assert replica.rule.found == [alert for alert, _ in pairs]
            tried += 1
    assert tried == [3, 15, 93, 639, 4653][events - 1], "all of them"


def test_rows_of_several_streams_belong_to_their_origin() -> None:
    owners = []
    for index in range(INSTANCES):
        replica = Replica(index)
        batches = [("g.log.T", rows([(1, 0), (5, 1), (2, 1)])), ("g.log.U", rows([(3, 2), (9, 5)]))]
        replica.engine.send_merged(batches, np.array([0, 1, 0, 0, 1], dtype=np.int64))
        owners.append(replica.given)
    assert owners == [[], [(3, 5)], [(1, 3), (2, 9)]], "an origin beyond the number of instances is one of them"


def test_what_time_completes_belongs_to_the_first_instance() -> None:
    for index in range(INSTANCES):
        replica = Replica(index)
        replica.engine.send("g.log.T", rows([(1, 1)]))
        replica.engine.advance_time(5)
        assert replica.engine.owns == (index == 0)
