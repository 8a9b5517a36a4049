"""From what the manager knows to what a page says. Pure: structs in, texts out; templates only place them.

A `tone` is the class of a colour and a mark: `good`, `busy`, `wait`, `warn`, `bad`, `idle`.
"""

from __future__ import annotations

import msgspec

from cep_manager.errors import PlanProblem
from cep_manager.monitoring.cluster_model import Cluster, DriverView, ManagerMember, NodeView, TaskView, WorkerView
from cep_manager.monitoring.nodes import why_no_order, why_no_takeover
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.status import InflowStatus, LostWorker, OutflowStatus, PlanStatus, TopologyStatus
from cep_manager.plans.state import PlanState
from cep_manager.web.console.texts.formats import duration, iso, plural, utc

STATE_TONES = {
    PlanState.WAITING: "wait",
    PlanState.DEPLOYING: "busy",
    PlanState.ACTIVE: "good",
    PlanState.DEGRADED: "bad",
    PlanState.INACTIVE: "idle",
    PlanState.RESTARTING: "warn",
    PlanState.REBALANCING: "busy",
    PlanState.UPDATING: "busy",
    PlanState.FAILED: "bad",
    PlanState.DRAINING: "busy",
    PlanState.KILLED: "idle",
}

DRIVER_TONES = {
    "running": "good",
    "waiting": "wait",
    "starting": "busy",
    "restarting": "warn",
    "failed": "bad",
    "stopping": "idle",
}


class Line(msgspec.Struct, frozen=True):
    """A text with its tone; `label` is shown before it."""

    label: str
    text: str
    tone: str


class StatusText(msgspec.Struct, frozen=True):
    """A plan's status in its three parts."""

    state: str
    tone: str
    reason: str
    facts: str
    interruption: str
    change_error: str
    state_left: tuple[str, ...]
    last_error: str
    inflow: tuple[Line, ...]
    outflow: Line


class PlanRow(msgspec.Struct, frozen=True):
    """A plan in the list."""

    name: str
    tenant: int
    description: str
    epoch: int
    updated: str
    updated_iso: str
    status: StatusText


class DriverText(msgspec.Struct, frozen=True):
    """The driver: `slots` in words, `used_slots` of `all_slots` for the meter."""

    name: str
    where: str
    master: str
    web_url: str
    state: Line
    slots: str
    used_slots: int
    all_slots: int
    topologies: tuple[tuple[str, int, Line, str], ...]


class ClusterWorkerRow(msgspec.Struct, frozen=True):
    """A worker."""

    name: str
    where: str
    http: str
    ingress: str
    egress: str
    plans: str
    up: str
    state: Line


class TaskRow(msgspec.Struct, frozen=True):
    """A task of a topology."""

    topology: str
    plan: str
    tenant: int
    number: int
    where: str
    instances: str
    up: str
    state: Line


class ManagerRow(msgspec.Struct, frozen=True):
    """One of the managers; `since` and `token` are a leader's."""

    control: str
    console: str
    asked: bool
    token: str
    since: str
    since_iso: str
    state: Line


class ProblemText(msgspec.Struct, frozen=True):
    """A problem in a plan's text; `snippet` is the line in question with its caret."""

    message: str
    snippet: str
    hint: str
    place: str


class ClusterText(msgspec.Struct, frozen=True):
    """Everything on the cluster page.

    `hands_over`: the other node can take over now. `orderable` are the names of the nodes that may be restarted or shut
    down now.
    """

    facts: tuple[tuple[str, str], ...]
    managers: tuple[ManagerRow, ...]
    nodes: tuple[NodeView, ...]
    hands_over: bool
    orderable: frozenset[str]
    driver: DriverText | None
    driver_missing: str
    workers: tuple[ClusterWorkerRow, ...]
    tasks: tuple[TaskRow, ...]


def present_plan(plan: PlanSummary | PlanDetails) -> PlanRow:
    """Return a plan as the list and the head of its page show it."""
    return PlanRow(
        name=plan.plan,
        tenant=plan.tenant,
        description=plan.description,
        epoch=plan.epoch,
        updated=utc(plan.updated_ms),
        updated_iso=iso(plan.updated_ms),
        status=present_status(plan.status),
    )


def present_status(status: PlanStatus) -> StatusText:
    """Return the three parts: topology, inflow connections of each worker, outflow connections."""
    topology = status.topology
    facts = [
        f"for {duration(topology.since_ms)}",
        f"{topology.tasks_live} of {plural(topology.tasks_required, 'task', 'tasks')} alive",
    ]
    if topology.restarts:
        facts.append(plural(topology.restarts, "restart", "restarts"))
    if not topology.intake and topology.state is not PlanState.INACTIVE:
        facts.append("deactivated")
    return StatusText(
        state=topology.state.value,
        tone=STATE_TONES[topology.state],
        reason=topology.reason,
        facts=" · ".join(facts),
        interruption=_interruption(topology),
        change_error=f"failed: {topology.change_error}" if topology.change_error else "",
        last_error=topology.last_error,
        state_left=topology.state_left,
        inflow=(*(_inflow(worker) for worker in status.inflow), *(_lost(worker) for worker in status.lost_workers)),
        outflow=_outflow(status.outflow),
    )


def present_problem(problem: PlanProblem) -> ProblemText:
    """Return a problem with its place in words."""
    _, _, below = problem.rendered.partition("\n")
    snippet = [line for line in below.splitlines() if not line.startswith("hint: ")]
    place = f"Line {problem.line}, column {problem.column} · " if problem.line else ""
    return ProblemText(
        message=problem.message, snippet="\n".join(snippet), hint=problem.hint, place=f"{place}{problem.code}"
    )


def present_cluster(cluster: Cluster) -> ClusterText:
    """Return the cluster page."""
    manager = cluster.manager
    return ClusterText(
        facts=(
            ("Manager", f"{manager.host}:{manager.control_port}, process {manager.process_id}"),
            ("Up for", duration(manager.up_ms)),
            ("Version", f"{manager.version} on Python {manager.python}"),
            ("Plan store", manager.database),
            ("Heartbeat", f"every {duration(manager.heartbeat_ms)}, lease {duration(manager.lease_ms)}"),
            ("Endpoints", _endpoints(cluster)),
        ),
        managers=tuple(_manager(member) for member in cluster.managers),
        nodes=cluster.nodes,
        hands_over=not why_no_takeover(cluster.nodes),
        orderable=frozenset(node.name for node in cluster.nodes if not why_no_order(cluster.nodes, node)),
        driver=_driver(cluster.driver) if cluster.driver else None,
        driver_missing=cluster.driver_missing,
        workers=tuple(_worker(worker) for worker in cluster.workers),
        tasks=tuple(_task(task) for task in cluster.tasks),
    )


def _interruption(topology: TopologyStatus) -> str:
    """Return why it last stopped being active, once it is active again; until then the reason says it."""
    if not topology.interruption or topology.state not in (PlanState.ACTIVE, PlanState.DEGRADED):
        return ""
    return f"{topology.interruption}, {duration(topology.interrupted_ms)} ago"


def _inflow(worker: InflowStatus) -> Line:
    label = worker.worker if worker.worker == worker.host else f"{worker.worker} on {worker.host}"
    return _established(label, worker.established, worker.required)


def _lost(worker: LostWorker) -> Line:
    return Line(f"{worker.worker} on {worker.host}", f"silent for {duration(worker.silent_ms)}", "bad")


def _outflow(outflow: OutflowStatus) -> Line:
    return _established("", outflow.connected, outflow.required)


def _established(label: str, established: int, required: int) -> Line:
    if required == 0:
        return Line(label, "none required", "idle")
    if established >= required:
        return Line(label, "all established", "good")
    return Line(label, f"{established}/{required} established", "wait" if established == 0 else "busy")


def _hosts(driver: DriverView) -> str:
    """Describe how full the stage hosts are; empty when there is none."""
    if not driver.stage_hosts:
        return ""
    plans = plural(sum(one.plans for one in driver.stage_hosts), "plan", "plans")
    return f"; {plural(len(driver.stage_hosts), 'stage host runs', 'stage hosts run')} {plans}"


def _driver(driver: DriverView) -> DriverText:
    alive = Line("", f"alive for {duration(driver.up_ms)}", "good")
    silent = Line("", f"silent for {duration(driver.silent_ms)}", "bad")
    free = driver.slots_free
    used = driver.slots_total - free
    return DriverText(
        name=driver.driver,
        where=f"{driver.host}, process {driver.process_id}",
        master=driver.master,
        web_url=driver.web_url if driver.web_url.startswith(("http://", "https://")) else "",
        state=alive if driver.live else silent,
        slots=f"{used} used, {free} free of {plural(driver.slots_total, 'slot', 'slots')}{_hosts(driver)}",
        used_slots=used,
        all_slots=driver.slots_total,
        topologies=tuple(
            (
                f"{one.plan}[{one.tenant}]",
                one.epoch,
                Line("", one.state, DRIVER_TONES[one.state]),
                one.reason if one.wanted else one.reason or "no longer needed; being stopped",
            )
            for one in driver.topologies
        ),
    )


def _manager(member: ManagerMember) -> ManagerRow:
    states = {
        "leader": Line("", "leads", "good"),
        "standby": Line("", "standby", "idle"),
        "silent": Line("", f"silent for {duration(member.silent_ms)}", "bad"),
    }
    leads = member.role == "leader"
    return ManagerRow(
        control=f"{member.control.host}:{member.control.port}",
        console=member.http_address,
        asked=member.asked,
        token=str(member.token) if leads else "–",
        since=utc(member.since_ms) if leads else "",
        since_iso=iso(member.since_ms) if leads else "",
        state=states[member.role],
    )


def _worker(worker: WorkerView) -> ClusterWorkerRow:
    in_step = Line("", "alive", "good")
    behind = Line("", "alive, applying the latest plans", "busy")
    return ClusterWorkerRow(
        name=worker.worker,
        where=f"{worker.host}, process {worker.process_id}",
        http=worker.http_address or "–",
        ingress=f"{worker.ingress.host}:{worker.ingress.port}" if worker.ingress else "–",
        egress=f"{worker.egress.host}:{worker.egress.port}" if worker.egress else "–",
        plans=", ".join(worker.plans) or "none",
        up=duration(worker.up_ms),
        state=in_step if worker.synchronised else behind,
    )


def _task(task: TaskView) -> TaskRow:
    alive = Line("", "alive", "good")
    silent = Line("", f"silent for {duration(task.silent_ms)}", "bad")
    return TaskRow(
        topology=f"{task.plan}[{task.tenant}]",
        plan=task.plan,
        tenant=task.tenant,
        number=task.task,
        where=f"{task.host}, process {task.process_id}",
        instances=", ".join(task.instances) or "–",
        up=duration(task.up_ms),
        state=alive if task.live else silent,
    )


def _endpoints(cluster: Cluster) -> str:
    live = [endpoint for endpoint in cluster.endpoints if endpoint.live]
    receivers = sum(endpoint.role == "receiver" for endpoint in live)
    silent = len(cluster.endpoints) - len(live)
    texts = [plural(receivers, "receiver", "receivers"), plural(len(live) - receivers, "worker", "workers")]
    return ", ".join([*texts, f"{silent} silent"] if silent else texts)
