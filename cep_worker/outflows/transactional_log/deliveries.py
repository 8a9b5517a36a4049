"""Deliver a publisher's results to consumers, and record the progress of each consumer.

    files       1 │ 2 │ 3 │ 4 │ 5 (written)
    failed sink ▲ has nothing of 2 yet            a file is deleted when all consumers
    other sink              ▲ has all up to 4     of its streams have all of it

Consumers never wait for each other: one that accepts nothing keeps files on disk, but does not delay others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cep_common.monitoring.paced_log import PacedLog
from cep_worker.outflows.consumers import Consumers, Tap
from cep_worker.outflows.transactional_log.commit_decisions import CommitDecision
from cep_worker.outflows.transactional_log.group_file import ResultGroup
from cep_worker.outflows.transactional_log.progress import DeliveryPosition, DeliveryProgress, write_progress
from cep_worker.outflows.transactional_log.publisher_log import PublisherLog, place_of
from cep_worker.outflows.transactional_log.release import GroupDelivery, UnloggedDelivery
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.storage.losses import Losses
from topology.events.frames import arrow_schema

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

Attributes = tuple[tuple[str, str], ...]
Who = tuple[str, str]
"""Identifies a consumer: the stream, and its name there."""


@dataclass(slots=True, eq=False)
class _ConsumerDelivery:
    """The progress of a consumer, which has all files up to number `done`, and `frames` of the next one."""

    stream: str
    tap: Tap
    done: int
    frames: int = 0
    release: GroupDelivery | UnloggedDelivery | None = None

    def rows_in(self, group: ResultGroup) -> int:
        """Return the number of the group's rows of its stream that it has settled."""
        if self.done >= group.ordinal:
            return group.stream_rows[self.stream]
        return self.release.settled_rows if self.release is not None and self.release.group is group else 0


@dataclass(slots=True)
class _ReportedRows:
    """The counted rows of a group and stream, and the number that each consumer lost."""

    rows: int = 0
    lost: dict[str, int] = field(default_factory=dict)


class ConsumerDeliveries:
    """The deliveries of one publisher's log.

    Belongs to the data thread.
    """

    def __init__(
        self,
        log: PublisherLog,
        consumers: Consumers,
        counts: StreamCounts,
        losses: Losses,
        changed: Callable[[], None],
        undone: Callable[[ResultGroup], None],
    ) -> None:
        """Start the deliveries of a log.

        `undone` is called for results that are dropped as undone; `changed` when `pump` has work again.
        """
        self._log = log
        self._find = consumers
        self._counts = counts
        self._losses = losses
        self._changed = changed
        self._undone = undone
        self._deliveries: dict[Who, _ConsumerDelivery] = {}
        self._known = {(one.stream, one.name): one for one in (log.progress.consumers if log.progress else ())}
        """Consumers whose positions an earlier process recorded, and that have not registered yet."""
        self._reported: dict[tuple[int, str], _ReportedRows] = {}
        self._counted_before: set[int] = set()
        """Files whose rows are counted as delivered elsewhere."""
        self._nowhere: set[str] = set()
        self._exported: Mapping[str, Attributes] = {}
        self._standing_rows = log.progress.rows if log.progress is not None else 0
        self._kept: DeliveryProgress | None = None
        self._damaged: set[int] = set()
        self._closed = False

    def pump(
        self, now_ms: int, exported: Mapping[str, Attributes], verdict: Callable[[ResultGroup], CommitDecision]
    ) -> Iterator[OSError]:
        """Offer committed results to each consumer that has room, and delete files that all consumers have.

        Return the problem, if any; the call must then be repeated.
        """
        if not self._log.groups:
            return
        self._exported = exported
        self._meet(verdict)
        for one in list(self._deliveries.values()):
            try:
                self._advance(one, verdict, now_ms)
            except OSError as error:
                yield error
        yield from self._drop(verdict, now_ms)

    def offered(self, group: ResultGroup, waiting: Mapping[Who, int]) -> None:
        """Record the number of frames of a complete `group` that consumers have and have not delivered yet.

        Other consumers have delivered the group. The caller counts its rows.
        """
        self._counted_before.add(group.ordinal)
        for stream in group.stream_rows:
            for tap in self._find(stream):
                who = (stream, tap.name)
                one = self._deliveries.get(who)
                if one is None:
                    one = self._deliveries[who] = _ConsumerDelivery(stream, tap, 0)
                self._known.pop(who, None)
                one.done, one.frames = group.ordinal, 0
        for (stream, name), frames in waiting.items():
            one = self._deliveries.get((stream, name))
            if one is not None and frames:
                one.done = group.ordinal - 1
                one.release = UnloggedDelivery(group, frames, partial(self._finished, one, group))

    def settle(self, who: Who, group: ResultGroup) -> None:
        """Record that a consumer has delivered one more frame of a group of `offered`."""
        one = self._deliveries.get(who)
        if one is not None and isinstance(one.release, UnloggedDelivery) and one.release.group is group:
            one.release.settle()

    def waiting_rows(self, released: Iterable[ResultGroup]) -> dict[Who, int]:
        """Return the number of rows of the `released` groups that each consumer has not delivered."""
        groups = list(released)
        return {
            who: sum(group.stream_rows[one.stream] - one.rows_in(group) for group in groups)
            for who, one in self._deliveries.items()
        }

    def keep(self, standing_rows: int) -> None:
        """Save the progress of all consumers, if it has changed.

        `standing_rows` of all rows that were ever written to the log must be delivered.
        """
        self._standing_rows = standing_rows
        if self._log.groups:
            self._keep()

    def _keep(self) -> None:
        before = self._kept or self._log.progress or DeliveryProgress("")
        oldest = self._log.groups[0].ordinal
        there = {
            who: DeliveryPosition(
                *who, one.tap.form, one.done, one.release.settled_frames if one.release else one.frames
            )
            for who, one in self._deliveries.items()
            if one.tap.lasting
        }
        known = {who: place for who, place in self._known.items() if place.done >= oldest or place.frames}
        ahead = tuple(place for place in {**known, **there}.values() if place.done >= oldest or place.frames)
        now = DeliveryProgress(
            self._log.groups[-1].header.log,
            max(self._standing_rows, self._log.dropped_rows),
            self._log.dropped,
            self._log.dropped_rows,
            ahead,
        )
        if now == before:
            return
        where = self._log.folder
        try:
            write_progress(where, now)
            self._kept = now
        except OSError as error:
            paced_logger.problem(str(where), "delivery positions cannot be saved: folder=%s reason=%s",
                                 where, error)  # fmt: skip
        else:
            paced_logger.over(str(where), "delivery positions are saved again: folder=%s", where)

    def close(self) -> None:
        """Stop offering results."""
        self._closed = True
        for one in self._deliveries.values():
            if one.release is not None:
                one.release.close()

    def _meet(self, verdict: Callable[[ResultGroup], CommitDecision]) -> None:
        """Update the set of consumers.

        A new sink gets the stored results, a new listener only results that are released from now on.
        """
        streams = {one.stream for group in self._log.groups for one in group.header.streams}
        taps = {(stream, tap.name): tap for stream in streams if stream in self._exported for tap in self._find(stream)}
        for who in self._deliveries.keys() - taps.keys():
            gone = self._deliveries.pop(who)
            self._log_removed_sink(gone, verdict)
            if gone.release is not None:
                gone.release.close()
        for (stream, name), tap in taps.items():
            one = self._deliveries.get((stream, name))
            if one is not None:
                one.tap = tap
                release = one.release
                if isinstance(release, GroupDelivery) and (release.group.header.at_once or not release.offered):
                    release.tap = tap
            elif tap.lasting:
                place = self._place(stream, tap, taps)
                self._deliveries[stream, name] = _ConsumerDelivery(stream, tap, place.done, place.frames)
            else:
                self._deliveries[stream, name] = _ConsumerDelivery(stream, tap, self._released_to(verdict))

    def _log_removed_sink(self, gone: _ConsumerDelivery, verdict: Callable[[ResultGroup], CommitDecision]) -> None:
        """Log the maximum number of events that are not delivered to a sink that was removed from the plan.

        It may still deliver events that it has in memory. It would only have got a share of a partitioned stream, and
        results whose checkpoint is not complete may be undone.
        """
        if not gone.tap.lasting or gone.stream not in self._exported:
            return
        waiting = [one for one in self._log.groups if verdict(one) is not CommitDecision.DISCARD]
        rows = sum(one.stream_rows[gone.stream] - gone.rows_in(one) for one in waiting)
        if rows:
            logger.error("results are not delivered, their sink was removed from the plan: folder=%s stream=%s sink=%s "
                         "up to events=%d", self._log.folder, gone.stream, gone.tap.name, rows)  # fmt: skip

    def _place(self, stream: str, tap: Tap, taps: Mapping[Who, Tap]) -> DeliveryPosition:
        """Return the progress of the consumer in an earlier process."""
        if not self._known:
            return DeliveryPosition(stream, tap.name, tap.form, 0)
        alike = [who for who, place in self._known.items() if (place.stream, place.form) == (stream, tap.form)]
        who = (stream, tap.name)
        if who not in alike:
            former = self._known.get(who)
            others = {other.form for (of, _), other in taps.items() if of == stream}
            who = alike[0] if alike else who
            if not alike and former is not None and former.form in others:
                return DeliveryPosition(stream, tap.name, tap.form, 0)
        return self._known.pop(who, DeliveryPosition(stream, tap.name, tap.form, 0))

    def _released_to(self, verdict: Callable[[ResultGroup], CommitDecision]) -> int:
        """Return the number of the newest completely released file."""
        newest = 0
        for group in self._log.groups:
            if verdict(group) is not CommitDecision.RELEASE or self._log.is_written(group):
                break
            newest = group.ordinal
        return newest

    def _advance(self, one: _ConsumerDelivery, verdict: Callable[[ResultGroup], CommitDecision], now_ms: int) -> None:
        while one.release is None:
            group = self._following(one)
            if group is None or not group.frames:
                return
            found, written = verdict(group), self._log.is_written(group)
            if found is CommitDecision.DISCARD or (
                found is CommitDecision.RELEASE and not written and not group.stream_rows[one.stream]
            ):
                one.done, one.frames = group.ordinal, 0
            elif found is not CommitDecision.RELEASE or (written and not group.header.at_once):
                return
            else:
                self._begin(one, group)
        one.release.pump(now_ms, written=self._log.is_written(one.release.group))

    def _following(self, one: _ConsumerDelivery) -> ResultGroup | None:
        """Return the oldest file that the consumer has not completely delivered."""
        found = None
        for group in reversed(self._log.groups):
            if group.ordinal <= one.done:
                break
            found = group
        return found

    def _begin(self, one: _ConsumerDelivery, group: ResultGroup) -> None:
        self._note_lost(group)
        schema = next((arrow_schema(stream) for stream in group.header.streams if stream.stream == one.stream), None)
        if schema is None:  # it has no frames of the stream
            one.done, one.frames = group.ordinal, 0
            return
        # frames of a checkpoint's group only count when the group was committed, as they are offered again with it
        passed = one.frames if group.header.at_once else 0
        one.release = GroupDelivery(
            self._log.group_id(group), group, one.stream, schema, one.tap, passed,
            moved=partial(self._moved, group, one.stream),
            finished=partial(self._finished, one, group),
            again=partial(self._again, one),
        )  # fmt: skip

    def _finished(self, one: _ConsumerDelivery, group: ResultGroup) -> None:
        """Record that the consumer has the whole group."""
        release = one.release
        if self._closed or release is None or one not in self._deliveries.values():
            return
        if release.unreadable_rows:
            self._damaged.add(group.ordinal)
            logger.error("prepared results lost: file=%s stream=%s events=%d reason=%s",
                         group.path, one.stream, release.unreadable_rows, release.problem)  # fmt: skip
            self._losses.note(release.unreadable_rows, f"{place_of(group.path)} released {one.stream}")
        lost = release.lost_rows + release.unreadable_rows
        self._reported_rows(group, one.stream).lost[one.tap.name] = lost
        one.release = None
        one.done, one.frames = group.ordinal, 0
        self._count(group, one.stream)
        self._changed()

    def _moved(self, group: ResultGroup, stream: str) -> None:
        self._count(group, stream)
        if group.header.at_once and not self._closed:
            self._changed()  # all consumers may have all of it

    def _again(self, one: _ConsumerDelivery) -> None:
        """Deliver the group to the present consumer of the name, since the former one ended too early."""
        if not self._closed:
            one.release, one.frames = None, 0
            self._changed()

    def _reported_rows(self, group: ResultGroup, stream: str) -> _ReportedRows:
        return self._reported.setdefault((group.ordinal, stream), _ReportedRows())

    def _count(self, group: ResultGroup, stream: str) -> None:
        """Count the rows that all consumers of the stream have by now."""
        if group.ordinal in self._counted_before:
            return
        there = [one for one in self._deliveries.values() if one.stream == stream]
        counted = self._reported_rows(group, stream)
        for one in there:
            if one.release is not None and one.release.group is group:
                counted.lost[one.tap.name] = one.release.lost_rows
        reached = min((one.rows_in(group) for one in there), default=group.stream_rows[stream])
        delivered = reached - max(counted.lost.values(), default=0)
        if delivered > counted.rows:
            self._counts.delivered(stream, delivered - counted.rows)
            counted.rows = delivered

    def _drop(self, verdict: Callable[[ResultGroup], CommitDecision], now_ms: int) -> Iterator[OSError]:
        """Delete the oldest files that are no longer needed."""
        log = self._log
        while log.groups and log.groups[0].frames:
            group = log.groups[0]
            found = verdict(group)
            try:
                if found is CommitDecision.DISCARD:
                    if log.is_written(group):
                        log.cut()
                    self._note_gone(group, verdict)
                    self._undone(group)
                elif found is not CommitDecision.RELEASE or not self._is_done(group, now_ms):
                    return
                else:
                    self._note_lost(group)
                    for stream in group.stream_rows:
                        self._count(group, stream)
                    self._note_nowhere(group)
                log.dropped, log.dropped_rows = group.ordinal, group.all_rows
                self._keep()  # before the file is deleted, since a missing file counts as lost
                log.drop_oldest(damaged=group.ordinal in self._damaged)
            except OSError as error:
                yield error
                return
            for stream in group.stream_rows:
                self._reported.pop((group.ordinal, stream), None)
            self._counted_before.discard(group.ordinal)

    def _is_done(self, group: ResultGroup, now_ms: int) -> bool:
        """Return whether every consumer of the group has all of it.

        A group that is being written is completed then.
        """
        needed = [one for one in self._deliveries.values() if one.stream in group.stream_rows]
        if not self._log.is_written(group):
            return all(one.done >= group.ordinal for one in needed)
        if not group.header.at_once or not all(
            one.release is not None and one.release.group is group and one.release.is_caught_up() for one in needed
        ):
            return False
        self._log.cut()
        for one in needed:
            if one.release is not None:
                one.release.pump(now_ms, written=False)
        return all(one.done >= group.ordinal for one in needed)

    def _note_nowhere(self, group: ResultGroup) -> None:
        for stream in group.stream_rows.keys() - {one.stream for one in self._deliveries.values()} - self._nowhere:
            if stream not in self._exported:
                self._nowhere.add(stream)
                logger.error("prepared results have no consumer, the plan has changed: file=%s stream=%s",
                             group.path, stream)  # fmt: skip

    def judge_missing(self, verdict: Callable[[ResultGroup], CommitDecision]) -> bool:
        """Count the missing rows that only an empty file shows, once it is known whether they had to be delivered.

        Return whether that is still unknown.
        """
        group = self._log.groups[-1] if self._log.groups else None
        if group is None or group.frames or not group.missing_rows:
            return False
        decision = self._decision_before(group, verdict)
        if decision is CommitDecision.WAIT:
            return True
        if decision is CommitDecision.RELEASE:
            self._losses.note(group.missing_rows, place_of(group.path))
        group.missing_rows = 0
        return False

    def _note_gone(self, group: ResultGroup, verdict: Callable[[ResultGroup], CommitDecision]) -> None:
        """Count the rows of missing files before `group`, if they had to be delivered although `group` has not."""
        if group.missing_rows and self._decision_before(group, verdict) is CommitDecision.RELEASE:
            self._losses.note(group.missing_rows, place_of(group.path))

    def _decision_before(self, group: ResultGroup, verdict: Callable[[ResultGroup], CommitDecision]) -> CommitDecision:
        """Decide about the file before `group`, which is gone."""
        return verdict(replace(group, checkpoint=group.header.after or None))

    def _note_lost(self, group: ResultGroup) -> None:
        self._losses.note(group.lost_rows + group.missing_rows, place_of(group.path))
