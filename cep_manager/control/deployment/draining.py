"""Undeploying without losing accepted events: a plan stops its intake, processes accepted events, and is removed. Pure.

undeploy ──▶ accepts no events ──▶ every worker has sent its accepted events ───────▶ stages become idle ───▶ removed
             (stays in the list,   (it waits for workers that are down)              (exactly once: results
              sent to workers)                                                         are with their sinks)

Before it is removed, workers must confirm in later reports that nothing is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, WorkerPlanReport
from cep_common.protocol.tasks import RegisterTask
from cep_common.protocol.worker_reports import MOST_PARTITIONS
from cep_manager.control.deployment.state_transfer import AT_REST, Tasks
from cep_manager.control.instructions import Instruction, RemoveDrained
from cep_manager.control.members import (
    ClusterMember,
    ClusterMembers,
    has_left,
    is_secured,
    undelivered_results,
    waiting_events,
)
from cep_manager.plans.record import PlanRecord, with_stored

Worker = ClusterMember[RegisterWorker]

SETTLE_MS = 6_000
"""Longer than a message needs to pass a topic and a stage, and workers to report it."""
CONFIRM_MS = 2_000
"""Longer than the age of a worker's reported state, even on a busy machine."""
MOST_NAMED = 3
"""The number of workers that a reason names."""


class Unprocessed(msgspec.Struct, frozen=True):
    """A plan's unprocessed data at workers.

    `events` were accepted but not yet taken over by the topology, `results` wait for their checkpoint or for sinks.
    Both include workers that are `away`, which have `away_events` of the events.
    """

    events: int = 0
    results: int = 0
    away_events: int = 0
    away: tuple[str, ...] = ()


class DrainStep(msgspec.Struct, frozen=True):
    """The current step of a plan that is being drained, and a readable reason.

    It does `work`, `settle` (nothing waits, but its groups may still send each other events by topics), `rest` (its
    stages finish what they have), or it is `through`.
    """

    name: Literal["work", "settle", "rest", "through"]
    reason: str = ""


def unprocessed(key: PlanKey, live: Iterable[Worker], away: Iterable[Worker], first_epoch: int = 0) -> Unprocessed:
    """Return what workers last reported about the plan.

    Args:
        key: The plan.
        live: The workers that send heartbeats.
        away: The workers that no longer send heartbeats.
        first_epoch: The epoch under which the plan was deployed. Reports of earlier epochs concern another plan that
            had the name before. 0 if not known: all reports count.
    """
    here = [report for worker in live for report in _reports(worker, key, first_epoch)]
    return unprocessed_of(key, here, away, first_epoch)


def unprocessed_of(
    key: PlanKey, here: Iterable[WorkerPlanReport], away: Iterable[Worker], first_epoch: int = 0
) -> Unprocessed:
    """Return what workers reported last about the plan.

    `here` holds the reports of live workers; the rest is as for `unprocessed`.
    """
    here = [report for report in here if report.epoch >= first_epoch]
    gone = [(worker, report) for worker in away for report in _reports(worker, key, first_epoch) if has_left(report)]
    away_events = sum(waiting_events(report) for _, report in gone)
    return Unprocessed(
        events=sum(map(waiting_events, here)) + away_events,
        results=sum(map(undelivered_results, (*here, *(report for _, report in gone)))),
        away_events=away_events,
        away=tuple(worker.latest.worker for worker, _ in gone),
    )


def awaited_workers(
    key: PlanKey, live: Iterable[Worker], away: Iterable[Worker], first_epoch: int = 0
) -> tuple[str, ...]:
    """Return the names of workers that may have events of the plan when draining starts.

    These include every live worker, since it may be accepting events right now. The arguments are those of
    `unprocessed`.
    """
    names = {worker.latest.worker for worker in live}
    for worker in away:
        names |= {worker.latest.worker for report in _reports(worker, key, first_epoch) if has_left(report)}
    return tuple(sorted(names))


def _reports(worker: Worker, key: PlanKey, first_epoch: int) -> list[WorkerPlanReport]:
    return [report for report in worker.latest.plans if report.key == key and report.epoch >= first_epoch]


def drain(
    record: PlanRecord, members: ClusterMembers, now_ms: int, *, knows_all: bool
) -> tuple[PlanRecord, list[Instruction]]:
    """Check the remaining work of a plan that is being undeployed, and remove the plan when there is none.

    Unless the manager `knows_all` workers, some that it has not heard yet may have events.
    """
    live = members.live_by_name(now_ms)
    # A worker that returned with another folder does not have its former events.
    live = {name: worker for name, worker in live.items() if name not in members.away_workers}
    awaited = tuple(name for name in record.draining or () if name not in live or not _is_done(live[name], record))
    record = with_stored(record, draining=awaited)
    settled = record.settles_since_ms is not None and now_ms - record.settles_since_ms >= SETTLE_MS
    step = drain_step(record, live, members.away_workers, members.tasks.get(record.key, {}), settled=settled)
    if step.name == "work":
        record = msgspec.structs.replace(record, settles_since_ms=None)
    elif step.name == "settle" and record.settles_since_ms is None:
        record = msgspec.structs.replace(record, settles_since_ms=now_ms)
    if step.name != "through":
        rests = step.name == "rest"
        return msgspec.structs.replace(record, drain_reason=step.reason, rests=rests, through_since_ms=None), []
    since_ms = now_ms if record.through_since_ms is None else record.through_since_ms
    record = msgspec.structs.replace(record, through_since_ms=since_ms)
    if not knows_all:
        return msgspec.structs.replace(record, drain_reason="not all workers have reported yet"), []
    # Stages report their rest at once, workers once a second: what stages have given them since is in no report yet.
    silent = [name for name, worker in live.items() if worker.heard_ms - since_ms < CONFIRM_MS]
    if silent:
        reason = f"nothing waits; {_named(silent)} must confirm it with a later report"
        return msgspec.structs.replace(record, drain_reason=reason), []
    return msgspec.structs.replace(record, drain_reason="all of it is gone", goes=True), [RemoveDrained(record.key)]


def drain_step(
    record: PlanRecord, live: Mapping[str, Worker], away: Mapping[str, Worker], tasks: Tasks, *, settled: bool = True
) -> DrainStep:
    """Return the next step of draining.

    `live` are the workers that are heard, `away` those that are silent and may have events. A plan with topics between
    its groups has `settled` when nothing has waited anywhere for `SETTLE_MS`.
    """
    missing = [name for name in record.draining or () if name not in live]
    if missing:
        return DrainStep("work", _away_reason(missing, record, away))
    topics = _between_groups(record)
    reports = {name: _report(worker, record) for name, worker in live.items()}
    unsure = [name for name, report in reports.items() if report is None or report.accepts_events]
    if unsure:
        return DrainStep("work", f"its intake at {_named(unsure)} is about to stop")
    said = [report for report in reports.values() if report is not None]
    events = sum(map(waiting_events, said))
    if events:
        return DrainStep("work", f"{events:,} accepted events wait for its topology")
    if topics and (unread := _unread(record, live.values(), topics)):
        return DrainStep("work", unread)
    if topics and not settled:
        return _settle(record, said)
    if record.compiled is not None and record.compiled.delivery == "exactly-once":
        return _exactly_once(said)
    heard = [task.latest for number, task in sorted(tasks.items()) if number[0] == record.epoch]
    if len(heard) < record.workers:
        if all(map(is_secured, said)):
            return _deliver(said)
        return DrainStep("work", "its topology does not run, and must process events that it had taken over")
    delivered = _deliver(said)
    if _at_rest(heard) or delivered.name != "through":
        return delivered  # stages do not come to rest while workers cannot take their results
    return DrainStep("rest", "its stages process the events they have received")


def _between_groups(record: PlanRecord) -> Mapping[str, int]:
    """Return the topics by which the plan's groups send each other events, and how many partitions each surely has."""
    compiled = record.compiled
    if compiled is None:
        return {}
    between = (one for one in compiled.topics if one.use == "between")
    return {one.topic: one.partitions if compiled.creates_topics else 1 for one in between}


def _unread(record: PlanRecord, live: Iterable[Worker], topics: Mapping[str, int]) -> str:
    """Return the unread messages between the groups, as far as workers have reported them; empty: nothing."""
    lags = {
        (one.topic, one.partition): one.lag
        for worker in live
        for source in worker.latest.connectors
        if (source.tenant, source.plan) == (record.key.tenant, record.key.plan)
        for one in source.partitions
        if one.topic in topics
    }
    if unread := sum(lags.values()):
        return f"{unread:,} messages between its groups are not read yet"
    read = Counter(topic for topic, _ in lags)
    # A partition that no worker reads, for example after a worker has died, may contain messages.
    missing = sorted(topic for topic, count in topics.items() if read[topic] < min(count, MOST_PARTITIONS))
    if missing:
        return (
            f"no worker reads all partitions of the topic {missing[0]} at present: see the errors of its source, or "
            "undeploy with discard to leave its messages unread"
        )
    return ""


def _settle(record: PlanRecord, said: Collection[WorkerPlanReport]) -> DrainStep:
    """Return whether the topics between the groups may get more messages, as far as workers have reported."""
    exactly_once = record.compiled is not None and record.compiled.delivery == "exactly-once"
    if exactly_once and not all(map(is_secured, said)):
        return DrainStep("work", "the last events wait for their checkpoint")
    results = sum(map(undelivered_results, said))
    if results:
        return DrainStep("work", f"{results:,} results wait for their topics and sinks")
    return DrainStep("settle", "nothing waits; its groups may still exchange events")


def _deliver(said: Collection[WorkerPlanReport]) -> DrainStep:
    """Return the step in which results wait for sinks, or the last one."""
    results = sum(map(undelivered_results, said))
    return DrainStep("rest", f"{results:,} results wait for their sinks") if results else DrainStep("through")


def _exactly_once(said: Collection[WorkerPlanReport]) -> DrainStep:
    """Return the step of an exactly-once plan: results are final once a checkpoint includes the events behind them."""
    if not all(map(is_secured, said)):
        return DrainStep("work", "the last events wait for their checkpoint")
    results = sum(report.prepared.released_events for report in said if report.prepared is not None)
    return DrainStep("work", f"{results:,} results wait for their sinks") if results else DrainStep("through")


def _at_rest(tasks: Iterable[RegisterTask]) -> bool:
    return all(task.state_transfer in AT_REST for task in tasks)


def _is_done(worker: Worker, record: PlanRecord) -> bool:
    report = _report(worker, record)
    return report is not None and not report.accepts_events and not has_left(report)


def _report(worker: Worker, record: PlanRecord) -> WorkerPlanReport | None:
    found = (one for one in worker.latest.plans if (one.key, one.epoch) == (record.key, record.epoch))
    return next(found, None)


def _away_reason(missing: list[str], record: PlanRecord, away: Mapping[str, Worker]) -> str:
    gone = [away[name] for name in missing if name in away]
    events = unprocessed(record.key, (), gone, record.first_epoch).events
    has = f"with {events:,} accepted events" if events else "and may have accepted events"
    verb = "is" if len(missing) == 1 else "are"
    return f"{_named(missing)} {verb} away {has}: start it again, or undeploy with discard to drop them"


def _named(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"worker{'s' if len(names) > 1 else ''} {shown}" + (f" and {more} more" if more > 0 else "")
