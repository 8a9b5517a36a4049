"""The prepared results of a plan: on disk until their checkpoint is complete, then delivered to sinks."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_common.process.private_folders import make_private
from cep_common.protocol.links import Data, OpenLink
from cep_common.protocol.registry import CheckpointSpan, DeployedPlan, PlanCheckpoints
from cep_worker.inflows.wal.store import safe_component
from cep_worker.outflows.consumers import Consumers
from cep_worker.outflows.transactional_log.commit_decisions import Attempt, CommitDecision, commit_decision
from cep_worker.outflows.transactional_log.deliveries import ConsumerDeliveries, Who
from cep_worker.outflows.transactional_log.deployments import DeploymentEpochs
from cep_worker.outflows.transactional_log.file_sync import FileSync
from cep_worker.outflows.transactional_log.group_file import ResultGroup
from cep_worker.outflows.transactional_log.publisher_log import PublisherLog
from cep_worker.outflows.transactional_log.unlogged_frames import LoggedFrames, UnloggedFrame
from cep_worker.plans.stream_counts import StreamCounts
from cep_worker.runtime.event_loop import EventLoop
from cep_worker.runtime.worker_metrics import PreparedResultsMetrics
from cep_worker.storage.damaged_files import SUFFIX as ASIDE
from cep_worker.storage.damaged_files import DamagedFiles
from cep_worker.storage.losses import Losses

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

TRY_AGAIN_MS = 1_000
CUT_BYTES = 16 * 2**20
"""The approximate size of files of results that only wait for consumers; each file is deleted as a whole."""
UNDER_WAY_SHARE = 0.5
"""The part of the limit by which results in flight may exceed it, so that checkpoints can complete."""
LAST_CHECKPOINT = 2**63 - 1
"""The checkpoint of results that a topology sent after its last marker before it ended for good."""


class PreparedResults:
    """Stores results of publishers and delivers them when they are committed, in each publisher's order.

    Belongs to the data thread. A group is deleted when all consumers have delivered it. A group that was released when
    the process ended is released again, with exactly the same frames.

    Results left by an earlier deployment of the same name are decided on separately, since another topology does not
    undo them. Deployments are distinguished by their epochs: results under an epoch that was used before are not
    accepted.
    """

    def __init__(
        self,
        folder: Path,
        plan: DeployedPlan,
        event_loop: EventLoop,
        sync: FileSync,
        consumers: Consumers,
        most_bytes: int,
        counts: StreamCounts | None = None,
    ) -> None:
        """Recover the results in `folder`.

        It is full while more than `most_bytes` of committed results wait for consumers. `counts` counts delivered rows.

        Raises:
            OSError: the folder cannot be read.
        """
        self._folder = folder
        self._key = plan.key
        self._event_loop = event_loop
        self._sync = sync
        self._consumers = consumers
        self._most_bytes = most_bytes
        self._counts = counts if counts is not None else StreamCounts()
        self._exported: dict[str, tuple[tuple[str, str], ...]] = {}
        self._spans: tuple[CheckpointSpan, ...] = ()
        self._last_runs: tuple[CheckpointSpan, ...] = ()
        """The last runs of deployments that have ended for good; all of their results are committed."""
        self._status: tuple[tuple[CheckpointSpan, ...], ...] = ()
        """The reported checkpoints, by deployment."""
        self._judged = False
        """False while the outcome of results that were found on disk may still be reported."""
        self._gone = 0
        """The number of the first deployments that have ended for good."""
        self._logs: dict[tuple[int, str], PublisherLog] = {}
        self._deliveries: dict[PublisherLog, ConsumerDeliveries] = {}
        self._standing_bytes = 0
        self._first_epoch = 0
        self.needs_epoch = 0
        """The least epoch under which results of the present plan are accepted; 0: its present one."""
        self._losses = Losses(folder)
        self.problem = ""
        """Why some of them are not delivered now; empty without a problem."""
        self._closed = False
        self._oldest_ms = 0
        """The age of the oldest results, as of the last tick."""
        make_private(folder)
        self._recover(plan.epoch)
        self._orphans = DamagedFiles(folder, f"*/*/*{ASIDE}")
        found = {group.header for log in self._logs.values() for group in log.groups}
        self._deployments = DeploymentEpochs(
            {(one.epoch, one.deployed_ms) for one in found}, plan.epoch, plan.deployed_ms
        )
        self.update(plan)

    def update(self, plan: DeployedPlan) -> None:
        """Follow another deployment of the plan, or another plan under its name."""
        self._exported = {binding.stream: binding.attributes for binding in plan.exported}
        self._deployments.follow(plan.epoch, plan.deployed_ms)
        self.needs_epoch = self._deployments.least_epoch(plan.epoch, plan.deployed_ms)
        self._judged = self._judged or plan.delivery != "exactly-once"
        self._reapply_checkpoints()

    def rename(self, key: PlanKey) -> None:
        """Use the plan's new name."""
        self._key = key

    def close_before(self, epoch: int) -> None:
        """End all epochs before `epoch`, of which no publisher will connect any more.

        Their results are deleted when they are delivered. All results of the last run of an earlier deployment are
        committed.
        """
        if epoch > self._first_epoch:
            self._first_epoch = epoch
            self._end_former()
            self._pump_later()

    def newest_attempt(self, epoch: int) -> int:
        """Return the newest known attempt of `epoch`; 0 when there is none."""
        return max((attempt for of, attempt in self._runs() if of == epoch), default=0)

    def prepared_to(self, opening: OpenLink) -> int:
        """Return the position up to which the results of the publisher's present run are stored or delivered."""
        log = self._logs.get((opening.epoch, opening.sender))
        return log.prepared_to(opening) if log is not None else 0

    def has_room(self) -> bool:
        """Return whether `append` may be called."""
        # Above the limit that stops the plan's intake, so that results in flight in the topology can still be stored
        # and its checkpoint completed.
        return self._standing_bytes <= self._most_bytes * (1 + UNDER_WAY_SHARE)

    def is_full(self) -> bool:
        """Return whether processing should pause because too many results wait for consumers."""
        return self._standing_bytes > self._most_bytes

    def append(self, opening: OpenLink, message: Data, batch: pa.RecordBatch, body: Any) -> int:
        """Store the frame's new events and return their number.

        Raises:
            OSError: the disk fails, and nothing has changed.
        """
        return self._log(opening).append(message, batch, body)

    def holds(self, opening: OpenLink) -> bool:
        """Return whether results of the publisher wait here, so that its further results must wait, too."""
        log = self._logs.get((opening.epoch, opening.sender))
        return log is not None and log.prepared_rows() > 0

    def append_at_once(self, opening: OpenLink, message: Data, batch: pa.RecordBatch, body: Any) -> None:
        """Store a frame that is delivered as soon as consumers have room, regardless of checkpoints.

        Raises OSError, and nothing has changed.
        """
        log = self._log(opening, at_once=True)
        log.append(message, batch, body)
        # without checkpoints nothing else ends the file, and only whole files can be deleted
        if log.groups[-1].size_bytes >= CUT_BYTES:
            log.cut()
        self._pump_later()

    def keep_offered(
        self,
        opening: OpenLink,
        frames: Sequence[UnloggedFrame],
        durable: Callable[[], None],
    ) -> LoggedFrames:
        """Store frames that consumers already have, until they have delivered them.

        No other results of the publisher are stored. `durable` is called when the frames are on disk.

        Raises:
            OSError: the disk fails; some may be delivered twice.
        """
        log = self._log(opening, at_once=True)
        group = log.begun()
        for frame in frames:
            log.append(frame.message, frame.batch, frame.body)
        log.cut()
        self._sync.when_done(durable)
        waiting = Counter((frame.message.stream, name) for frame in frames for name in frame.waiting)
        deliveries = self._deliveries[log]
        deliveries.offered(group, waiting)
        self._pump_later()
        return LoggedFrames(deliveries, group)

    def mark(self, opening: OpenLink, checkpoint: int, durable: Callable[[], None]) -> None:
        """Assign the publisher's results since its last marker to `checkpoint`.

        `durable` is called when it is on disk.

        Raises:
            OSError: the disk fails, and nothing has changed.
        """
        self._log(opening).mark(checkpoint, durable)
        self._pump_later()

    def learn(self, checkpoints: Sequence[PlanCheckpoints]) -> None:
        """Apply the checkpoints of this plan, and of others of its name, to their epochs."""
        speaks_of = self._deployments.speaks_of
        self.apply_checkpoints(
            tuple(span for one in checkpoints for span in one.spans if speaks_of(one.deployed_ms, span.epoch))
        )

    def apply_checkpoints(self, spans: tuple[CheckpointSpan, ...]) -> None:
        """Commit and undo results according to `spans`. Earlier reports about other runs stay valid."""
        self._judged = self._judged or bool(spans)
        prepared = [group.header.run() for log in self._logs.values() for group in log.groups]
        named = {(span.epoch, span.attempt) for span in spans}
        # later runs determine which results of a stored run were undone
        spans += tuple(
            span
            for span in self._spans
            if prepared and (span.epoch, span.attempt) >= min(prepared) and (span.epoch, span.attempt) not in named
        )
        # every heartbeat repeats the report
        if spans != self._spans:
            self._spans = spans
            self._reapply_checkpoints()
        self._end_former()

    def end(self) -> None:
        """Commit all results of the last run, since the topology was removed."""
        self._end(len(self._deployments))

    def waiting_rows(self) -> Counter[Who]:
        """Return the number of committed rows that each consumer has not delivered yet."""
        waiting: Counter[Who] = Counter()
        for log, deliveries in self._deliveries.items():
            waiting.update(deliveries.waiting_rows(group for group in log.groups if self._is_released(log, group)))
        return waiting

    def is_empty(self) -> bool:
        """Return whether no results are stored."""
        return not any(log.prepared_rows() for log in self._logs.values())

    def retry(self) -> None:
        """Retry delivery to consumers that were full."""
        if not self.is_empty():
            self._pump_later()

    def tick(self, now_ms: int) -> None:
        """Perform due tasks."""
        since_ms = now_ms
        for log, deliveries in self._deliveries.items():
            standing = (group.all_rows for group in log.groups if self._is_released(log, group))
            deliveries.keep(max(standing, default=0))
        for log in self._logs.values():
            for group in log.groups:
                if group.frames:
                    group.since_ms = now_ms if group.since_ms is None else group.since_ms
                    since_ms = min(since_ms, group.since_ms)
        self._oldest_ms = now_ms - since_ms
        self._orphans.tick(now_ms)
        self._losses.tick(now_ms)

    def metrics(self) -> PreparedResultsMetrics:
        """Return the metrics of the stored results.

        Also before the first tick, since a plan that is being undeployed is removed when no results are reported.
        """
        logs = self._logs.values()
        rows, size = sum(log.prepared_rows() for log in logs), sum(log.prepared_bytes() for log in logs)
        return PreparedResultsMetrics(
            events=rows,
            size_bytes=size if rows else 0,
            oldest_ms=self._oldest_ms if rows else 0,
            lost_events=self._losses.rows,
            damaged_file_bytes=self._orphans.size_bytes,
            released_events=sum(
                group.rows for log in logs for group in log.groups if self._is_released(log, group)
            ),
            maximum_bytes=self._most_bytes,
            full=self.is_full(),
        )  # fmt: skip

    def close(self) -> None:
        """Stop accepting and delivering results; stored ones stay on disk."""
        self._closed = True
        for deliveries in self._deliveries.values():
            deliveries.close()
        for log in self._logs.values():
            log.close()
        self._losses.close()

    def discard(self) -> None:
        """Close, and delete the stored results, since the plan is no longer deployed."""
        self.close()
        rows = sum(log.prepared_rows() for log in self._logs.values())
        if rows:
            logger.warning("results lost with their plan: plan=%s events=%d", self._key.topology(), rows)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _log(self, opening: OpenLink, at_once: bool = False) -> PublisherLog:
        name = (opening.epoch, opening.sender)
        log = self._logs.get(name)
        if log is None:
            folder = self._folder / str(opening.epoch) / safe_component(opening.sender)
            log = self._logs[name] = self._found(PublisherLog(folder, self._key, self._sync))
        lost = len(log.lost)
        log.begin(opening, self._deployments.deployed_ms(opening.epoch), at_once)
        if len(log.lost) > lost:
            self._note_lost(log)
            self._orphans.look()
        return log

    def _found(self, log: PublisherLog) -> PublisherLog:
        self._deliveries[log] = ConsumerDeliveries(
            log, self._consumers, self._counts, self._losses, self._pump_later, self._note_undone
        )
        return log

    def _note_lost(self, log: PublisherLog) -> None:
        for place, rows in log.lost.items():
            self._losses.note(rows, place)

    def _recover(self, epoch: int) -> None:
        for folder in sorted(self._folder.glob("*/*")):
            log = PublisherLog(folder, self._key, self._sync)
            self._note_lost(log)
            header = log.groups[-1].header if log.groups else None
            if header is not None and (log.prepared_rows() or log.groups[-1].missing_rows or header.epoch >= epoch):
                self._logs[header.epoch, header.publisher] = self._found(log)
            else:  # an earlier epoch without results
                log.remove()
        rows = sum(log.prepared_rows() for log in self._logs.values())
        if rows:
            logger.info("prepared results found: plan=%s events=%d", self._key.topology(), rows)

    def _runs(self) -> set[Attempt]:
        """Return the runs with results or reports."""
        prepared = {group.header.run() for log in self._logs.values() for group in log.groups}
        return prepared | {(span.epoch, span.attempt) for span in self._spans}

    def _end_former(self) -> None:
        """End deployments of which no publisher will connect any more."""
        if self._judged:
            self._end(self._deployments.of(self._first_epoch))

    def _end(self, count: int) -> None:
        """End the first `count` deployments."""
        if count <= self._gone:
            return
        for number in range(self._gone, count):
            runs = [run for run in self._runs() if self._deployments.of(run[0]) == number]
            if runs:
                self._last_runs += (CheckpointSpan(*max(runs), LAST_CHECKPOINT),)
        self._gone = count
        self._reapply_checkpoints()

    def _reapply_checkpoints(self) -> None:
        spans = (*self._spans, *self._last_runs)
        self._status = tuple(
            tuple(span for span in spans if self._deployments.of(span.epoch) == number)
            for number in range(len(self._deployments))
        )
        self._pump_later()

    def _pump_later(self) -> None:
        self._event_loop.defer(self._pump)

    def _pump(self, now_ms: int) -> None:
        if self._closed:
            return
        was_full = self.is_full()
        found: dict[str, str] = {}
        for (epoch, publisher), log in list(self._logs.items()):
            try:
                self._mark_last(log)
                problems = list(self._deliveries[log].pump(now_ms, self._exported, self._verdict))
                waits = self._deliveries[log].judge_missing(self._verdict)
                if epoch < self._first_epoch and not log.prepared_rows() and not waits:
                    log.remove()
                    del self._logs[epoch, publisher], self._deliveries[log]
            except OSError as error:  # the other publishers' results continue
                problems = [error]
            for problem in problems:
                which = f"plan={self._key.topology()} publisher={publisher}"
                text = "prepared results cannot be read or deleted: %s reason=%s"
                paced_logger.problem(which, text, which, problem, level=logging.ERROR)
                found[which] = f"results on the disk cannot be read or deleted: {problem}"
                self._event_loop.call_at(now_ms + TRY_AGAIN_MS, self._pump)
        self.problem = next(iter(found.values()), "")
        self._standing_bytes = sum(
            group.size_bytes for log in self._logs.values() for group in log.groups
            if self._is_released(log, group)
        )  # fmt: skip
        if was_full and not self.is_full():
            paced_logger.over("full", "results are computed again: plan=%s", self._key.topology())
        elif self.is_full() and not was_full:
            text = "log of undelivered results is full, sources wait: plan=%s bytes=%d results.max_undelivered_bytes=%d"
            paced_logger.problem("full", text, self._key.topology(), self._standing_bytes, self._most_bytes)

    def _mark_last(self, log: PublisherLog) -> None:
        """Complete the group after the last marker of a last run."""
        group = log.groups[-1] if log.groups else None
        if (
            group is not None
            and group.frames
            and any((one.epoch, one.attempt) == group.header.run() for one in self._last_runs)
        ):
            log.mark(LAST_CHECKPOINT, lambda: None)

    def _is_released(self, log: PublisherLog, group: ResultGroup) -> bool:
        """Return whether the group only waits for consumers."""
        return self._verdict(group) is CommitDecision.RELEASE and (group.header.at_once or not log.is_written(group))

    def _verdict(self, group: ResultGroup) -> CommitDecision:
        if group.header.at_once:
            return CommitDecision.RELEASE
        run = group.header.run()
        return commit_decision(run, group.checkpoint, self._status[self._deployments.of(run[0])])

    def _note_undone(self, group: ResultGroup) -> None:
        run = group.header.run()
        known = any((span.epoch, span.attempt) == run for span in self._spans)
        level = logging.INFO if known or group.checkpoint is None else logging.WARNING
        logger.log(level, "results undone, dropped: plan=%s publisher=%s epoch=%d attempt=%d checkpoint=%s events=%d",
                   self._key.topology(), group.header.publisher, *run, group.checkpoint, group.rows)  # fmt: skip
