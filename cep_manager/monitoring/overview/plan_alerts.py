"""Alerts about plans: states, connections, load, checkpoints, errors. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from cep_common.ids import PlanKey, instance_name
from cep_common.protocol.drivers import CheckpointReport, TopologyReport
from cep_common.protocol.error_records import SCRIPT_STOPPED
from cep_manager.checkpoints.view import former_savepoint, unreadable_state
from cep_manager.control.deployment.deployments import RUNS
from cep_manager.history.windowed_metrics import CAPACITY_WINDOW_S, window_metrics
from cep_manager.monitoring.degraded import DegradedPart, degraded_parts, full_reason
from cep_manager.monitoring.overview.alerts import RECENT_MS, Alert, AlertContext, AlertSeverity, Subject
from cep_manager.monitoring.status import WorkerReports, plan_status, worker_reports
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.state import PlanState
from query_plan.xml import read_checkpoint_interval

LASTING_MS = 15_000
"""The duration after which a problem is not expected to recover without action."""
BUSY = 0.9
"""A stage that spends more than this share of its time working cannot take much more."""
COUNTED_MS = 60_000
"""A share of less time than this says little."""
NOISY, NOISY_MS = 0.5, 3_000
"""A plan that uses more than this share of its stage host's time, for this long, delays the plans that share the
host."""
FULL = 0.8
"""A log of events that takes more than this share of its room."""
PREPARED_MS = 60_000
"""Results that wait longer than this are late."""
DAMAGED = "The disk may be damaged; the worker's log names the files. This alert remains until lost.json is removed"
MISSED_CHECKPOINTS = 3
"""The number of intervals without a checkpoint that raises an alert."""


class PlanAlertContext(msgspec.Struct, frozen=True):
    """A plan in the picture, what workers say of it in its present epoch, and which parts of it do not work.

    `system` is True when alerts on the system are listed beside those on plans.
    """

    picture: AlertContext
    record: PlanRecord
    reports: WorkerReports
    system: bool
    degraded: tuple[DegradedPart, ...] = ()

    @property
    def lasts(self) -> bool:
        """Return whether the plan has been in its state for some time."""
        return self.picture.snapshot.now_ms - self.record.state_since_ms >= LASTING_MS


PlanCheck = Callable[[PlanAlertContext], Iterator[Alert]]


def plan_alerts(picture: AlertContext, tenant: int | None, system: bool) -> Iterator[Alert]:
    """Yield what is wrong with the plans of `tenant`, or of all (None).

    Leaves out that plans wait for a driver when alerts on the `system` say so.
    """
    for key, record in picture.snapshot.plans.items():
        if tenant in (None, key.tenant):
            reports = worker_reports(picture.snapshot, key, record.epoch)
            case = PlanAlertContext(picture, record, reports, system, degraded_parts(key, reports))
            for check in PLAN_CHECKS:
                yield from check(case)


def _alert(
    key: PlanKey,
    severity: AlertSeverity,
    code: str,
    what: str,
    advice: str,
    since_ms: int | None = None,
    subject: Subject = "plan",
) -> Alert:
    return Alert(severity, code, subject, key.plan, what, advice, since_ms, key.tenant)


def _state(case: PlanAlertContext) -> Iterator[Alert]:
    picture, record = case.picture, case.record
    since_ms = picture.time_of_day(record.state_since_ms)
    key, reason = record.key, record.reason
    if record.state is PlanState.FAILED and unreadable_state(picture.snapshot, record):
        what = f"It needs a decision: {reason}"
        advice = (
            "Choose the state it starts from, with Restart … or the commands given; accepted events wait until then."
        )
        yield _alert(key, AlertSeverity.CRITICAL, "state-unreadable", what, advice, since_ms)
    elif record.state is PlanState.FAILED:
        advice = "Edit the plan and deploy it again." if record.unusable else "Fix the cause, then restart the plan."
        yield _alert(key, AlertSeverity.CRITICAL, "plan-failed", f"It does not run: {reason}", advice, since_ms)
    elif record.state is PlanState.WAITING and not (case.system and picture.snapshot.driver_missing):
        advice = "Free slots by undeploying or rebalancing another plan, or give Spark more executors."
        yield _alert(key, AlertSeverity.CRITICAL, "plan-waits", f"It waits: {reason}", advice, since_ms)
    elif record.state is PlanState.RESTARTING:
        advice = "It restarts by itself; if it restarts repeatedly, its errors and logs say why."
        severity = AlertSeverity.CRITICAL if case.lasts else AlertSeverity.WARNING
        yield _alert(key, severity, "plan-restarts", f"It is being restarted: {reason}", advice, since_ms)
    elif record.state is PlanState.DEPLOYING and case.lasts:
        advice = "Check the driver's log and Spark's web UI: executors may fail to start."
        yield _alert(key, AlertSeverity.WARNING, "plan-slow", f"It does not start: {reason}", advice, since_ms)
    if record.change_error:
        advice = "The previous version keeps running. Fix the cause and change the plan again."
        what = f"The last change failed: {record.change_error}"
        yield _alert(key, AlertSeverity.WARNING, "change-failed", what, advice)


def _connections(case: PlanAlertContext) -> Iterator[Alert]:
    picture, record = case.picture, case.record
    if record.state is not PlanState.ACTIVE or not case.lasts:
        return
    status = plan_status(picture.snapshot, record.key)
    lacking = [
        f"{one.worker} {one.established}/{one.required}" for one in status.inflow if one.established < one.required
    ]
    if lacking:
        what = f"Workers are not connected to its receivers: {', '.join(lacking)}"
        advice = "Events wait in the workers' logs. Check that workers can reach the hosts and ports of the receivers."
        yield _alert(record.key, AlertSeverity.WARNING, "inflow", what, advice)
    if status.outflow.connected < status.outflow.required:
        what = f"{status.outflow.connected} of {status.outflow.required} publishers are connected to a worker"
        advice = "Results wait in the topology. Check that executors can reach the workers' addresses."
        yield _alert(record.key, AlertSeverity.WARNING, "outflow", what, advice)


def _load(case: PlanAlertContext) -> Iterator[Alert]:
    picture, record = case.picture, case.record
    for instance, history in picture.snapshot.histories.get(record.key, {}).items():
        metrics = window_metrics(history, CAPACITY_WINDOW_S, picture.snapshot.now_ms)
        if metrics.busy_share() > BUSY and metrics.covered_ms >= COUNTED_MS:
            yield _at_its_limit(record, instance, metrics.busy_share())
    for worker, report in case.reports:
        waiting = [link.instance for link in report.links if link.waits]
        if waiting and not _fails(case, worker.latest.worker):
            what = f"{', '.join(waiting)} wait: {worker.latest.worker} has no room for their results"
            advice = (
                "A sink or listener is slower than its input. Find the cause, or let it drop events that it "
                "cannot take."
            )
            yield _alert(record.key, AlertSeverity.WARNING, "publisher-waits", what, advice)
        full = [
            one.stream
            for one in report.inflow
            if one.connected and one.waiting_events and one.window_rows and one.in_flight_rows >= one.window_rows
        ]
        if full:
            what = (
                f"Events of {', '.join(full)} wait at {worker.latest.worker}: the topology has reached its "
                "limit of events in flight"
            )
            advice = (
                "It is slower than its sources; find the busiest stage in the plan's graph, and rebalance the plan."
            )
            yield _alert(record.key, AlertSeverity.NOTICE, "back-pressure", what, advice)


def _at_its_limit(record: PlanRecord, instance: str, share: float) -> Alert:
    what = f"{instance} spends {share:.0%} of its time working: it is close to its limit"
    scaled = record.compiled.scaled if record.compiled is not None else ()
    stage = next((one for one in scaled if instance.rpartition("#")[0] == one.name), None)
    if stage is None:
        advice = "Rebalance the plan to more workers, or give the stage more instances with @dist(parallel='n')."
        return _alert(record.key, AlertSeverity.WARNING, "capacity", what, advice)
    advice = f"cep scaling {record.key.plan} says why it has no more instances."
    if instance_name(stage.name, stage.most - 1) in record.instances():
        what += f", and {stage.name} has its maximum of {stage.most} instances"
        advice = "Raise max in its @dist, or give the cluster more slots first if it has none free."
    return _alert(record.key, AlertSeverity.WARNING, "scaling-limit", what, advice)


def _neighbours(case: PlanAlertContext) -> Iterator[Alert]:
    """Name a plan that keeps busy the stage host that it shares, while others wait for their turns."""
    snapshot, record = case.picture.snapshot, case.record
    hosts = snapshot.driver.latest.stage_hosts if snapshot.driver is not None else ()
    for task in snapshot.tasks.get(record.key, ()):
        others = sum(one.plans - 1 for one in hosts if one.host == task.latest.stage_host)
        if not task.latest.stage_host or others < 1 or not task.earlier:
            continue
        before = task.earlier[0]
        passed_ms = task.heard_ms - before.at_ms
        used_ms = task.latest.cpu_ms - before.report.cpu_ms
        if passed_ms >= NOISY_MS and used_ms > NOISY * passed_ms:
            what = (
                f"It uses {min(1.0, used_ms / passed_ms):.0%} of the time of stage host {task.latest.stage_host}, in "
                f"which {others} other {'plan waits for its turn' if others == 1 else 'plans wait for their turns'}"
            )
            advice = (
                f"Move it out with cep rebalance {record.key.plan} --host own, or the button Rebalance on the "
                "plan's page. It then uses a slot "
                f"of its own and keeps its state."
            )
            yield _alert(record.key, AlertSeverity.WARNING, "noisy-plan", what, advice)


def _time(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield what holds event time back, and events that came too late for it."""
    topology = plan_status(case.picture.snapshot, case.record.key).topology
    key = case.record.key
    if topology.awaited:
        streams = ", ".join(topology.awaited)
        what = f"Event time waits for the first event of {streams}; events of other streams are kept until then"
        advice = (
            f"Send events of {streams}; or run without: cep release {key.plan} {' '.join(topology.awaited)}, or the "
            "button on the plan's page. To deploy a plan that does not wait, use @Plan:playback(idleTime='…', "
            "increment='…')."
        )
        yield _alert(key, AlertSeverity.WARNING, "first-event", what, advice)
    if topology.behind_ms >= LASTING_MS and topology.waits_for:
        what = f"It processes events of {duration_text(topology.behind_ms)} ago: {', '.join(topology.waits_for)}"
        advice = "It catches up by itself. Results are late, but have the times of their events."
        yield _alert(key, AlertSeverity.NOTICE, "behind", what, advice)
    if topology.late:
        late = ", ".join(f"{one.events} of {one.stream}" for one in topology.late)
        what = f"Events came behind the clock since its tasks started: {late}"
        advice = (
            "They were too late for windows and patterns that had already ended. Check that senders keep the "
            "order of their events, or allow "
            "more disorder: inflow.out_of_order_ms and inflow.idle_ms of workers, stages.idle_ms."
        )
        yield _alert(key, AlertSeverity.WARNING, "late-events", what, advice)


def duration_text(span_ms: int) -> str:
    """Return a span of time in the largest unit that shows it."""
    for unit, name in ((3_600_000, "h"), (60_000, "min")):
        if span_ms >= 2 * unit:
            return f"{span_ms // unit} {name}"
    return f"{span_ms // 1_000} s"


def _storage(case: PlanAlertContext) -> Iterator[Alert]:
    picture, record = case.picture, case.record
    for part in case.degraded:
        if part.kind == "results" and not _results_full(case, part.worker):
            what = f"Results do not leave {part.worker}: {part.error}"
            advice = "Until then they wait in the topology. The worker's log has the reason."
            yield _alert(record.key, AlertSeverity.CRITICAL, "results-problem", what, advice)
    for worker, report in case.reports:
        name = worker.latest.worker
        for wal in report.write_ahead_logs:
            share = wal.size_bytes / wal.maximum_bytes if wal.maximum_bytes else 0.0
            if wal.problem:
                what = f"{name} cannot store events of {wal.stream}: {wal.problem}"
                advice = "Free space on the disk of its data folder or repair it; until then events are refused."
                yield _alert(record.key, AlertSeverity.CRITICAL, "log-problem", what, advice)
            elif share > FULL:
                what = f"{name}'s log of {wal.stream} takes {share:.0%} of its room"
                advice = "Events will be refused soon unless the topology catches up or a checkpoint completes."
                yield _alert(record.key, AlertSeverity.WARNING, "log-full", what, advice)
            if wal.lost_events:
                what = f"{wal.lost_events} events of {wal.stream} in {name}'s log are unreadable"
                advice = f"{DAMAGED} in the log's folder."
                yield _alert(record.key, AlertSeverity.WARNING, "log-lost", what, advice)
        if report.prepared is not None and report.prepared.lost_events:
            what = f"{report.prepared.lost_events} prepared results of {name} could not be read back"
            advice = f"{DAMAGED} in the folder of the plan's results."
            yield _alert(record.key, AlertSeverity.WARNING, "prepared-results-lost", what, advice)
        aside = sum(wal.damaged_file_bytes for wal in report.write_ahead_logs)
        aside += report.prepared.damaged_file_bytes if report.prepared is not None else 0
        if aside:
            what = f"{aside} bytes of damaged files were set aside by {name}"
            advice = "Look at the files *.unreadable in its data folder, whose names are in its log; then remove them."
            yield _alert(record.key, AlertSeverity.WARNING, "damaged-files", what, advice)
        prepared = report.prepared
        if prepared is not None and prepared.events and prepared.oldest_ms > PREPARED_MS and not _fails(case, name):
            sinks = prepared.released_events
            what = f"{prepared.events:,} results wait in {name} for their " + ("sinks" if sinks else "checkpoint")
            what += f"; {full_reason(prepared)}, and sources wait" if prepared.full else ""
            since_ms = picture.now_ms - prepared.oldest_ms
            advice = (
                "Its sinks are slower than the results arrive: speed them up, reduce the results of the plan, or "
                "raise results.max_undelivered_bytes at the worker."
                if sinks
                else "They are delivered when a checkpoint is complete: see the plan's checkpoints."
            )
            yield _alert(record.key, AlertSeverity.WARNING, "results-waiting", what, advice, since_ms)


def _connectors(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield one alert per failing source or sink, regardless of the number of workers."""
    by_name: dict[str, list[DegradedPart]] = {}
    for part in case.degraded:
        if part.kind in ("sink", "source"):
            by_name.setdefault(part.name(), []).append(part)
    for name, parts in by_name.items():
        first, is_sink = parts[0], parts[0].kind == "sink"
        workers = ", ".join(dict.fromkeys(part.worker for part in parts))
        waiting = sum(part.waiting_events for part in parts)
        waits = f"; {waiting:,} {'results' if is_sink else 'events'} wait for it" if waiting else ""
        severity = AlertSeverity.CRITICAL if is_sink else AlertSeverity.WARNING
        what = f"The {name} at {workers} fails: {first.error}{waits}"
        advice = _sink_advice(case) if is_sink else "It retries by itself. Check that the system it connects to is up."
        yield _alert(case.record.key, severity, "connector", what, advice, first.since_ms or None)


def _results_full(case: PlanAlertContext, worker: str) -> bool:
    return any(one.prepared is not None and one.prepared.full for at, one in case.reports if at.latest.worker == worker)


def _sink_advice(case: PlanAlertContext) -> str:
    advice = (
        "It retries by itself. Check that the system it connects to is up and accepts the events, or edit the sink."
    )
    if any(report.prepared is not None and report.prepared.full for _, report in case.reports):
        return (
            f"{advice} Until then senders wait, and are refused (429, 503) when the logs of the plan's sources are "
            "full, too; checkpoints continue. Or raise results.max_undelivered_bytes at the worker, or let the sink "
            "drop events (on.error='STORE' keeps them: cep errors)."
        )
    return f"{advice} Results wait on the worker's disk, and checkpoints continue."


def _fails(case: PlanAlertContext, worker: str) -> bool:
    """Return whether a sink at the worker is known to fail: what waits for it needs no separate alert."""
    return any(part.kind == "sink" and part.worker == worker for part in case.degraded)


def _waits_for_sink(case: PlanAlertContext) -> bool:
    """Return whether results cannot leave the topology because of a sink."""
    return any(link.waits for _, report in case.reports for link in report.links)


def _checkpoints(case: PlanAlertContext) -> Iterator[Alert]:
    picture, record = case.picture, case.record
    driver = picture.snapshot.driver
    if driver is None or record.state not in (PlanState.ACTIVE, PlanState.INACTIVE):
        return
    topology = _topology(picture.snapshot.topologies_of(record.key), record)
    if topology is None:
        return
    ended = [one for one in topology.checkpoints if one.state != "taking"]
    if _waits_for_sink(case):  # the sink's alert says so: no checkpoint passes results that cannot leave
        return
    if ended and ended[-1].state in ("failed", "abandoned"):
        what = f"Checkpoint {ended[-1].checkpoint} failed: {ended[-1].error}"
        advice = (
            "Its tasks were too slow, or one of them hangs: check the plan's stages and the driver's log."
            if ended[-1].state == "abandoned"
            else "Check that the checkpoint store is writable and has free space; the driver's log has the reason."
        )
        advice = f"{advice} Until a checkpoint is complete, a failure repeats everything since the last complete one."
        yield _alert(record.key, AlertSeverity.WARNING, "checkpoint-failed", what, advice, _end(ended[-1]))
        return
    settings = driver.latest.checkpointing
    if settings is None or not settings.location:
        return
    own_ms = read_checkpoint_interval(record.compiled.query_plan) if record.compiled is not None else None
    interval_ms = settings.interval_ms if own_ms is None else own_ms
    if not interval_ms:  # the plan asks for none
        return
    bound_ms = MISSED_CHECKPOINTS * (interval_ms + settings.pause_ms) + settings.timeout_ms
    began_ms = picture.time_of_day(record.state_since_ms)
    last_ms = max([began_ms, *(_end(one) for one in ended if one.state == "complete")])
    if picture.now_ms - last_ms > bound_ms and not topology.current:
        what = f"No checkpoint has been taken for {(picture.now_ms - last_ms) // 60_000} min"
        advice = "A failure would repeat all events of that time; the driver's log says what delays checkpoints."
        yield _alert(record.key, AlertSeverity.WARNING, "checkpoint-old", what, advice, last_ms)


def _former(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield alerts about data that another plan of the name left in the store, for as long as it is kept."""
    record = case.record
    kept = former_savepoint(case.picture.snapshot, record.key)
    if kept:
        what = f"Another plan of this name had checkpoints; the newest of them is kept as savepoint {kept}"
        advice = f"To start from it: cep restart {record.key.plan} --from {kept}. Otherwise, delete it."
        yield _alert(record.key, AlertSeverity.NOTICE, "former-checkpoints", what, advice)


def _topology(topologies: Iterable[TopologyReport], record: PlanRecord) -> TopologyReport | None:
    return next((one for one in topologies if (one.key, one.epoch) == (record.key, record.epoch)), None)


def _end(checkpoint: CheckpointReport) -> int:
    return checkpoint.began_ms + checkpoint.duration_ms


def _interruption(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield what lately stopped a plan that runs again: a restart, a recall of tasks, a lost driver."""
    picture, record = case.picture, case.record
    at_ms = picture.time_of_day(record.interrupted_ms)
    if not record.interruption or record.state not in RUNS or picture.now_ms - at_ms >= RECENT_MS:
        return
    times = f"; its topology has been restarted {record.restarts} times" if record.restarts > 1 else ""
    what = f"It was interrupted and runs again: {record.interruption}{times}"
    advice = f"No action is needed unless it happens again. To list all errors: cep exceptions {record.key.plan}"
    yield _alert(record.key, AlertSeverity.NOTICE, "plan-interrupted", what, advice, at_ms)


def _errors(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield one alert for all errors of a plan, with the newest.

    Errors of a sink or source that is failing now, and the failure behind the last interruption, have alerts of their
    own.
    """
    picture, record = case.picture, case.record
    failing = {f"{part.kind} {part.type} of {part.stream}" for part in case.degraded}
    interrupted = bool(record.interruption) and record.state in RUNS
    recent = [
        one
        for one in picture.snapshot.errors.get(record.key, ())
        if picture.now_ms - one.last_ms < RECENT_MS
        and one.code not in ("plan-invalid", SCRIPT_STOPPED)
        and not (one.kind == "failure" and (interrupted or record.state not in RUNS))
        and not all(place.instance in failing for place in one.places)
    ]
    if not recent:
        return
    newest = max(recent, key=lambda one: one.last_ms)
    instance = newest.places[0].instance if newest.places else ""
    where = f"{instance}: " if instance else ""
    often = sum(one.count for one in recent)
    what = f"{often} {'error' if often == 1 else 'errors'}, the newest at {where}{newest.text}"
    advice = (
        "Failed events are handled by the stream's @OnError action. Fix the plan or the incoming data; "
        f"cep exceptions {record.key.plan} lists them."
    )
    yield _alert(record.key, AlertSeverity.WARNING, "errors", what, advice, newest.last_ms)


def _scripts(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield an alert for script functions of which calls were stopped."""
    picture, key = case.picture, case.record.key
    for one in picture.snapshot.errors.get(key, ()):
        if one.code == SCRIPT_STOPPED and picture.now_ms - one.last_ms < RECENT_MS:
            what = f"{one.count} {'call was' if one.count == 1 else 'calls were'} stopped: {one.text}"
            advice = (
                "The events failed, and each such call delays the plan. Correct the script, or check its arguments "
                "first; cep exceptions lists the failed events."
            )
            yield _alert(key, AlertSeverity.WARNING, SCRIPT_STOPPED, what, advice, one.last_ms)


def _lags(case: PlanAlertContext) -> Iterator[Alert]:
    """Yield topics that are read more slowly than they are written."""
    picture, key = case.picture, case.record.key
    for one in picture.snapshot.growing_lags.get((key.tenant, key.plan), ()):
        minutes = (picture.snapshot.now_ms - one.since_ms) // 60_000
        what = (
            f"Topic {one.topic} is read more slowly than it is written: {one.messages:,} messages wait, "
            f"{one.before:,} did {minutes} min ago"
        )
        advice = (
            "Find the busy stage or sink. @dist(parallel='n') gives a stage more instances, and several workers "
            "share the topic's partitions."
        )
        yield _alert(key, AlertSeverity.WARNING, "topic-lag", what, advice, picture.time_of_day(one.since_ms))


PLAN_CHECKS: tuple[PlanCheck, ...] = (
    _state,
    _connections,
    _load,
    _neighbours,
    _time,
    _storage,
    _connectors,
    _lags,
    _checkpoints,
    _former,
    _interruption,
    _errors,
    _scripts,
)
