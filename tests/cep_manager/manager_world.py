"""A small world for tests of the manager: messages as peers send them, and a view that needs no manager."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from pathlib import Path
from typing import Any

import msgspec

from cep_common.ids import SUPER_TENANT, Endpoint, PlanKey
from cep_common.inspection.endpoint import Inspection
from cep_common.nodes.files import NodeOrder
from cep_common.protocol.drivers import PlanHost, RegisterDriver, RunState, SavepointReport, TopologyReport
from cep_common.protocol.registry import (
    InflowReport,
    OutflowReport,
    RegisterEndpoint,
    RegisterWorker,
    RequestEndpoint,
    StreamBinding,
    WorkerPlanReport,
)
from cep_common.protocol.tasks import (
    ComponentReport,
    ComponentState,
    RegisterTask,
    StateTransfer,
    StreamCount,
)
from cep_manager.authoring.language import describe_language
from cep_manager.authoring.model import EditedPart, EditedStream, EditPreview, Language, PlanTrial, Preview
from cep_manager.checkpoints.view import (
    CheckpointList,
    SavepointList,
    SavepointView,
    checkpoint_list,
    require_savepoint,
    savepoint_list,
    savepoint_view,
)
from cep_manager.commands.node_orders import node_to_order, require_protection
from cep_manager.commands.sample_commands import sampled_components
from cep_manager.config import QuotasConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.control.instructions import Instruction
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import (
    NodeSwitchError,
    PlanExistsError,
    PlanInvalidError,
    PlanProblem,
    ProcessSilentError,
    QueryInvalidError,
    UnknownAsideError,
    UnknownWorkerError,
    WorkerRejectedEventsError,
    unknown_plan,
)
from cep_manager.events.model import EventStreamView, SentEvents, TailFilter, TailReport
from cep_manager.events.streams import event_streams, find_stream
from cep_manager.graph.event_flow import EventFlow, event_flow
from cep_manager.graph.model import TopologyGraph
from cep_manager.graph.topology_graph import planned_graph, topology_graph
from cep_manager.history.samples import SampleReport, sample_report
from cep_manager.live.broadcaster import Broadcaster, LiveSubscription, Look
from cep_manager.monitoring.cluster import driver_view, endpoint_views, task_views, worker_views
from cep_manager.monitoring.cluster_model import (
    Cluster,
    ElectionView,
    Health,
    ManagerInfo,
    ManagerMember,
    NodeView,
    Overview,
)
from cep_manager.monitoring.failed_events.model import (
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    FailedEventView,
    ReplayedEvents,
)
from cep_manager.monitoring.logs.client import Ask, NoAnswer
from cep_manager.monitoring.logs.insights import Insights
from cep_manager.monitoring.logs.processes import known_processes, own_process
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted, from_points
from cep_manager.monitoring.metric_tables.model import PlanPoint
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideEntry, AsideList, DiscardedAside, RestoredAside
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.compiled_plan import CompiledPlan, PlannedComponent
from cep_manager.plans.outcomes import Outcome, Undeployed
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.rule_sets.model import (
    DeployedRule,
    RuleChange,
    RuleFile,
    RuleProblem,
    RuleSetDetails,
    RuleSetRefusedError,
    RuleSetReport,
    RuleSetSummary,
    UnknownRuleSetError,
    report_of,
    require_files,
)
from cep_manager.plans.rule_sets.origin import require_rule_set_name
from cep_manager.plans.stored_plan import SettingsPatch, StoredPlan
from cep_manager.scaling.model import PlanScaling
from cep_manager.state_queries.model import QueryableState, StateColumn, StateList, StateQuestion, StateRows
from cep_manager.web.ports import Validation
from query_plan.builder import build
from query_plan.xml import write_xml
from siddhi.analysis.analyser import analyse
from siddhi.explanation import ExplainedOperator, ExplainedQuery, ExplainedStage, PlanExplanation, RuledOut
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.messages import TrialOutput, TrialResult, TrialRow

NO_QUOTAS = QuotasConfig()
LEASE_MS = 3_000
HEARTBEAT_MS = 1_000
FLIGHTS = Path(__file__).parents[2] / "samples" / "flights" / "KnockOnDelays.siddhiql"
TEXT = "@Plan:name('Storms') ..."

KEY = PlanKey(SUPER_TENANT, "Storms")
DEPLOYED_MS = 1_767_225_600_000

PUBLISHED = ("KnockOns", "AirportStorms")
QUERY_PLAN = """@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (tailnum string, delay int);
@Export('KnockOns:1.0.0') define stream KnockOns (tailnum string);
@info(name='lateness') @dist(execGroup='lateness', parallel='2')
from Departures[delay > 15] select tailnum insert into KnockOns;
"""
"""One of the plan's stages: enough for those that read query plans."""
COMPILED = CompiledPlan(
    name="Storms",
    description="Airports where many flights leave late",
    query_plan=write_xml(build(analyse(parse(QUERY_PLAN)))).partition("\n")[2],
    state_shape="of three stages",
    components=(
        PlannedComponent("EventReceiver", "receiver", 1, ("Arrivals", "Departures"), ("Arrivals", "Departures")),
        PlannedComponent("lateness", "processor", 2, ("Departures",), ("Late",)),
        PlannedComponent("aircraft", "processor", 1, ("Arrivals", "Departures"), ("KnockOns",)),
        PlannedComponent("storms", "processor", 1, ("Late",), ("AirportStorms",)),
        PlannedComponent(
            "EventPublisher", "publisher", 1, ("KnockOns", "AirportStorms"), ("KnockOns", "AirportStorms")
        ),
    ),
    imported=(
        StreamBinding("Arrivals", "Arrivals:1.0.0", (("tailnum", "string"), ("delay", "int"))),
        StreamBinding("Departures", "Departures:1.0.0", (("tailnum", "string"), ("delay", "int"))),
    ),
    exported=(
        StreamBinding("KnockOns", "KnockOns:1.0.0", (("tailnum", "string"),)),
        StreamBinding("AirportStorms", "AirportStorms:1.0.0", (("origin", "string"),)),
    ),
)


def plan(
    key: PlanKey = KEY,
    epoch: int = 1,
    text: str = TEXT,
    compiled: CompiledPlan | str = COMPILED,
    sent_before: bool = False,
    **stored: Any,
) -> PlanToRun:
    """`stored` are more fields of the stored plan."""
    row = StoredPlan(key, text, epoch, created_ms=DEPLOYED_MS, updated_ms=1_767_225_600_000)
    return PlanToRun(msgspec.structs.replace(row, **stored), compiled, sent_before)


def driver(
    *topologies: TopologyReport, name: str = "driver-1", process_id: int = 100, started_ms: int = 0
) -> RegisterDriver:
    return RegisterDriver(
        driver=name,
        host="10.0.0.1",
        process_id=process_id,
        master="local[4]",
        slots_total=4,
        slots_free=4 - len(topologies),
        topologies=topologies,
        web_url="http://10.0.0.1:4040",
        started_ms=started_ms,
    )


def topology(
    state: RunState, epoch: int = 1, reason: str = "", restarts: int = 0, key: PlanKey = KEY
) -> TopologyReport:
    return TopologyReport(key=key, epoch=epoch, state=state, reason=reason, restarts=restarts)


def counts(**events: int) -> tuple[StreamCount, ...]:
    return tuple(StreamCount(stream, number) for stream, number in events.items())


def components(events: int = 0) -> tuple[ComponentReport, ...]:
    """All instances of `COMPILED` in one task, after `events` departures and half as many arrivals."""
    half, few, fewer = events // 2, events // 10, events // 100
    receiver_peers = ("lateness#0", "lateness#1", "aircraft#0")
    into = counts(Arrivals=half, Departures=events)
    return (
        ComponentReport("EventReceiver#0", "EventReceiver", "receiver", receiver_peers, into, into),
        ComponentReport(
            "lateness#0", "lateness", "processor", ("storms#0",), counts(Departures=half), counts(Late=few), busy_ms=few
        ),
        ComponentReport(
            "lateness#1", "lateness", "processor", ("storms#0",), counts(Departures=half), counts(Late=fewer)
        ),
        ComponentReport(
            "aircraft#0", "aircraft", "processor", ("EventPublisher#0",), into, counts(KnockOns=few), busy_ms=half
        ),
        ComponentReport(
            "storms#0",
            "storms",
            "processor",
            ("EventPublisher#0",),
            counts(Late=few + fewer),
            counts(AirportStorms=fewer),
            queued_events=12,
        ),
        ComponentReport(
            "EventPublisher#0",
            "EventPublisher",
            "publisher",
            ("worker-1",),
            counts(KnockOns=few, AirportStorms=fewer),
            counts(KnockOns=few, AirportStorms=fewer),
        ),
    )


def task(
    epoch: int = 1,
    number: int = 0,
    process_id: int = 200,
    events: int = 0,
    key: PlanKey = KEY,
    attempt: int = 0,
    step: StateTransfer = "",
) -> RegisterTask:
    return RegisterTask(
        key, epoch, number, "10.0.0.2", process_id, components(events), attempt=attempt, state_transfer=step
    )


def worker(
    *plans: WorkerPlanReport, name: str = "worker-1", revision: int = 0, process_id: int = 300
) -> RegisterWorker:
    return RegisterWorker(
        worker=name,
        host="10.0.0.3",
        process_id=process_id,
        revision=revision,
        plans=plans,
        http_address="http://10.0.0.3:9763",
        ingress=Endpoint("10.0.0.3", 9611),
        egress=Endpoint("10.0.0.3", 9612),
    )


def serves(epoch: int = 1, events: int = 0, linked: bool = True, key: PlanKey = KEY) -> WorkerPlanReport:
    """A worker's report on a plan: both inflow connections and the publisher's link, standing or not."""
    receiver = "EventReceiver#0" if linked else ""
    return WorkerPlanReport(
        key=key,
        epoch=epoch,
        inflow=(
            InflowReport("Arrivals", linked, events // 2, 0, receiver),
            InflowReport("Departures", linked, events, 3, receiver),
        ),
        outflow=(
            OutflowReport("KnockOns", events // 10, events // 10),
            OutflowReport("AirportStorms", events // 100, events // 100),
        ),
        publishers=("EventPublisher#0",) if linked else (),
    )


def receiver(
    instance: str = "EventReceiver#0",
    host: str = "10.0.0.2",
    port: int = 15_000,
    epoch: int = 1,
    connections: tuple[str, ...] = (),
    key: PlanKey = KEY,
    attempt: int = 0,
) -> RegisterEndpoint:
    return RegisterEndpoint("receiver", key, epoch, instance, Endpoint(host, port), connections, attempt)


def request(
    requester: str = "worker-1",
    host: str = "10.0.0.3",
    stream: str = "Departures",
    epoch: int = 1,
    key: PlanKey = KEY,
    former: str = "",
) -> RequestEndpoint:
    return RequestEndpoint("receiver", key, epoch, requester, host, stream, former=former)


class World:
    """A control plane with a clock that tests move; keeps every instruction."""

    def __init__(self, quotas: QuotasConfig = NO_QUOTAS) -> None:
        self.plane = ControlPlane(HEARTBEAT_MS, LEASE_MS, default_workers=1, revision=1_000, quotas=quotas)
        self.now_ms = 0
        self.instructions: list[Instruction] = []

    def put(self, to_run: PlanToRun) -> None:
        self.instructions += self.plane.put_plan(to_run, self.now_ms)

    def hear(self, *messages: object, peer: bytes = b"peer") -> object:
        """Hands the messages in and lets the plane think; the answer to the last one."""
        answer: object = None
        for message in messages:
            answer, instructions = self.plane.handle(peer, message, self.now_ms)  # type: ignore[arg-type]
            self.instructions += instructions
        self.tick()
        return answer

    def tick(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self.instructions += self.plane.tick(self.now_ms)

    def taken(self, kind: type) -> list[object]:
        """The instructions of `kind` since the last time that any were taken."""
        found = [one for one in self.instructions if isinstance(one, kind)]
        self.instructions = [one for one in self.instructions if not isinstance(one, kind)]
        return found

    def snapshot(self) -> ClusterSnapshot:
        return self.plane.snapshot(self.now_ms)

    def active(self, events: int = 0) -> None:
        """The plan runs, everything is connected."""
        self.put(plan())
        self.hear(driver(), peer=b"driver")
        self.hear(driver(topology("running")), peer=b"driver")
        self.hear(task(events=events), receiver(connections=("worker-1/Arrivals", "worker-1/Departures")))
        self.hear(worker(serves(events=events), revision=self.snapshot().revision))


LEADER = ManagerMember(
    control=Endpoint("127.0.0.1", 8904),
    http_address="http://127.0.0.1:9080",
    role="leader",
    asked=True,
    token=3,
    since_ms=1_767_225_600_000,
    silent_ms=0,
)


ASIDE_ENTRY = AsideEntry(
    "4f2a91c0", "log", "Gone", "Departures", 12, 1_767_225_600_000, 1_767_830_400_000, "its plan is missing", "worker-1"
)


class FakeTail:
    """Two reports of a hostile event, then the end."""

    def __init__(self, stream: EventStreamView, wanted: TailFilter | None) -> None:
        self.stream = stream
        self.wanted = wanted
        self.taken = 0
        self.closed = False

    def take(self, timeout_s: float) -> TailReport:
        self.taken += 1
        event = {"_timestamp": 1_767_225_600_000, **dict.fromkeys((n for n, _ in self.stream.attributes), "<b>x</b>")}
        return TailReport([event], 10 * self.taken, self.taken, self.taken, "that was all" if self.taken == 2 else "")

    def close(self) -> None:
        self.closed = True


def insights_of(world: World, ask: Ask, own: Inspection | None = None) -> Insights:
    """Insights into the processes of `world`, which answer as `ask` says."""
    manager = own_process(Endpoint("127.0.0.1", 8904), 1, 60_000)
    return Insights(lambda: (manager, *known_processes(world.snapshot())), ask, manager.process.id, own)


KEPT_ENTRY = FailedEventView(
    id="3f9a21c07b5d",
    worker="worker-1",
    kind="stream",
    stream="Departures",
    sink="",
    query="Delays",
    reason="10 cannot be divided by 0",
    time_ms=1_767_225_660_000,
    events=({"_timestamp": 1_767_225_660_000, "origin": "ORD", "delay": 7},),
)


_RULED_OUT = RuledOut("FastOperator", "<b>no</b>")
_OPERATOR = ExplainedOperator("input", "SlowOperator", "event by event", 900.0, 40.0, (_RULED_OUT,))
_QUERY = ExplainedQuery("late", (_OPERATOR,), "", 900.0, 41.0, ("SlowOperator works event by event in Python",))
EXPLANATION = PlanExplanation("Storms", (ExplainedStage("one", (_QUERY,)),))


class FakeView:
    """A `ManagerView` over a `World`: the real presentation of a made-up cluster."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.healthy = True
        self.points: tuple[PlanPoint, ...] = ()
        self.tables = MetricTablesView("sqlite:///metrics.db", 15_000, 259_200_000)
        self.managers: tuple[ManagerMember, ...] = (LEADER,)
        self.nodes: tuple[NodeView, ...] = ()
        self.switched = 0
        self.ordered: list[tuple[str, NodeOrder]] = []
        self.failure: Exception | None = None
        self.now_ms = 1_767_225_665_000
        self.deployed: list[tuple[int, str, bool]] = []
        self.undeployed: list[PlanKey] = []
        self.done: list[tuple[PlanKey, str]] = []
        self.tried: list[PlanTrial] = []
        self.questions: list[StateQuestion] = []
        self.tails: list[FakeTail] = []
        self.broadcaster = Broadcaster(2)
        self.sent: list[tuple[str, bytes, str, str]] = []
        self.asked: Ask = lambda questions: [NoAnswer("nobody answers here") for _ in questions]
        self.own: Inspection | None = None
        self.chosen: list[FailedEventSelection] = []

    def plans(self, tenant: int, only: Collection[PlanKey] | None = None) -> tuple[PlanSummary, ...]:
        snapshot = self._look()
        chosen = snapshot.plans if only is None else only
        return tuple(self._summary(key) for key in sorted(chosen) if key.tenant == tenant)

    def plan(self, key: PlanKey) -> PlanDetails:
        record = self._record(key)
        summary = self._summary(key)
        return PlanDetails(
            **{name: getattr(summary, name) for name in summary.__struct_fields__},
            text=record.text,
            imported=COMPILED.imported,
            exported=COMPILED.exported,
        )

    def query_plan(self, key: PlanKey) -> str:
        compiled = self._record(key).compiled
        if compiled is None:
            raise PlanInvalidError((PROBLEM,))
        return compiled.query_plan

    def graph(self, key: PlanKey) -> TopologyGraph:
        self._record(key)
        return topology_graph(self.world.snapshot(), key)

    def insights(self) -> Insights:
        self._look()
        return insights_of(self.world, self.asked, self.own)

    def event_flow(self, tenant: int) -> EventFlow:
        return event_flow(self._look(), tenant)

    def event_streams(self, tenant: int) -> tuple[EventStreamView, ...]:
        return event_streams(self._look(), tenant)

    def open_tail(self, tenant: int, name: str, wanted: TailFilter | None) -> FakeTail:
        stream = find_stream(self._look(), tenant, "exported", name)
        self.tails.append(FakeTail(stream, wanted))
        return self.tails[-1]

    def watch(self, name: Hashable, look: Look) -> LiveSubscription:
        return self.broadcaster.watch(name, look)

    def send_events(self, tenant: int, name: str, body: bytes, kind: str, authorization: str) -> SentEvents:
        find_stream(self._look(), tenant, "imported", name)
        if b"broken" in body:
            problems = [{"index": 0, "attribute": "delay", "problem": "must be a number"}]
            raise WorkerRejectedEventsError("events do not fit", "bad-events", problems)
        self.sent.append((name, body, kind, authorization))
        return SentEvents(name, 1, "worker-1")

    def failed_events(self, key: PlanKey, limit: int, authorization: str) -> FailedEventList:
        self._record(key)
        return FailedEventList(key.plan, key.tenant, 1, (KEPT_ENTRY,), ())

    def replay_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> ReplayedEvents:
        self._record(key)
        self.chosen.append(choice)
        return ReplayedEvents(key.plan, key.tenant, 1, 1, (), 0, 0, ())

    def discard_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> DiscardedEvents:
        self._record(key)
        self.chosen.append(choice)
        return DiscardedEvents(key.plan, key.tenant, 1, ())

    def set_aside(self, tenant: int, authorization: str) -> AsideList:
        return AsideList(tenant, (ASIDE_ENTRY,) if tenant == KEY.tenant else (), ())

    def restore_aside(self, tenant: int, id_: str, authorization: str) -> RestoredAside:
        self._aside(tenant, id_)
        return RestoredAside(id_, "worker-1", ASIDE_ENTRY.events, 0)

    def discard_aside(self, tenant: int, id_: str, authorization: str) -> DiscardedAside:
        self._aside(tenant, id_)
        return DiscardedAside(id_, "worker-1", ASIDE_ENTRY.events)

    def adopt_worker(self, worker: str) -> AdoptedWorker:
        if worker != "worker-9":
            raise UnknownWorkerError(f"no worker named {worker} of another system reports to this manager")
        return AdoptedWorker(worker, "5f0d")

    def _aside(self, tenant: int, id_: str) -> None:
        if (tenant, id_) != (KEY.tenant, ASIDE_ENTRY.id):
            raise UnknownAsideError(f"nothing with the id {id_} is set aside at any worker")

    def validate(self, text: str) -> Validation:
        self._look()
        problems = (PROBLEM,) if "broken" in text else ()
        warnings = (WARNING,) if "odd" in text else ()
        return Validation(valid=not problems, plan="" if problems else "Storms", problems=problems, warnings=warnings)

    def preview(self, tenant: int, text: str) -> Preview:
        if self.validate(text).problems:
            raise PlanInvalidError((PROBLEM,))
        graph = planned_graph(PlanKey(tenant, "Storms"), COMPILED)
        return Preview("Storms", graph, COMPILED.query_plan, "Storms: 3 execution groups")

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        self._record(key)
        if self.validate(text).problems:
            raise PlanInvalidError((PROBLEM,))
        held = ComponentState("query", "late", rows=12, bytes=480)
        part = EditedPart("one", "query", "late", kept=False, reason="its definition changed", held=held)
        return EditPreview(key.plan, 0, 1, (part,), (EditedStream("Departures", 7, "mapped", "by name; null: gate"),))

    def explain(self, text: str) -> PlanExplanation:
        if self.validate(text).problems:
            raise PlanInvalidError((PROBLEM,))
        return EXPLANATION

    def explain_plan(self, key: PlanKey) -> PlanExplanation:
        self._record(key)
        return EXPLANATION

    def try_plan(self, trial: PlanTrial) -> TrialResult:
        self._look()
        self.tried.append(trial)
        row = TrialRow(1, 1_000, ["<b>ORD</b>"])
        out = TrialOutput("stream", "AirportStorms", (("origin", "string"),), [row], 1)
        return TrialResult([out], [], [], {}, [], 0, 1_000, 12)

    def language(self) -> Language:
        return describe_language(ScriptPolicy())

    def deploy(
        self,
        tenant: int,
        text: str,
        replace: bool,
        name: str | None = None,
        rename: bool = False,
        restore: str = "",
    ) -> Outcome:
        self._look()
        if restore:
            require_savepoint(self._look(), PlanKey(tenant, "Storms"), restore)
            self.done.append((PlanKey(tenant, "Storms"), f"deploy from {restore}"))
        self.deployed.append((tenant, text, replace))
        if "broken" in text:
            raise PlanInvalidError((PROBLEM,))
        if "clash" in text and not replace:
            raise PlanExistsError("a plan named Storms is deployed with another text; replace it")
        if rename:
            return self._done(PlanKey(tenant, name or ""), f"rename {name}")
        created = "again" not in text
        return Outcome("Storms", tenant, f"Storms[{tenant}]", 1, created, changed=True, message="Storms was deployed")

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        return PlanKey(tenant, name)

    def rename(self, key: PlanKey, name: str) -> Outcome:
        return self._done(key, f"rename to {name}")

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> Outcome:
        words = {True: "activate", False: "deactivate"}.get(patch.intake, "")
        words = words or {True: "trace", False: "untrace"}.get(patch.trace, "")
        return self._done(key, words or f"statistics {patch.statistics}")

    def release(self, key: PlanKey, streams: Collection[str]) -> Outcome:
        return self._done(key, f"release {' '.join(streams)}".strip())

    def restart(self, key: PlanKey, restore: str = "") -> Outcome:
        return self._done(key, f"restart from {restore}" if restore else "restart")

    def rebalance(self, key: PlanKey, workers: int | None, host: PlanHost | None = None) -> Outcome:
        return self._done(key, f"rebalance to {workers}" + (f" in {host}" if host else ""))

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        self._record(key)
        self.undeployed.append(key)
        if discard:
            self.done.append((key, "discard"))
        waiting, dropped = (0, 1_234) if discard else (1_234, 0)
        return Undeployed(
            plan=key.plan,
            tenant=key.tenant,
            draining=not discard,
            waiting_events=waiting,
            discarded_events=dropped,
            message=f"{key.plan} is being undeployed",
        )

    def sample(self, key: PlanKey, component: str, percent: float, for_s: int) -> SampleReport:
        components = sampled_components(self._record(key), component, percent, for_s)
        self.world.plane.sample(key, components, percent, for_s * 1_000, self.world.now_ms)
        return self.samples(key, component)

    def samples(self, key: PlanKey, component: str = "") -> SampleReport:
        self._record(key)
        snapshot = self._look()
        return sample_report(snapshot.samples, key, component, snapshot.now_ms)

    scaled: PlanScaling | None = None
    """What `scaling` answers, if any stage is to follow the load."""

    def scaling(self, key: PlanKey) -> PlanScaling:
        self._record(key)
        return self.scaled or PlanScaling(key.plan, key.tenant, (), ())

    def state_list(self, key: PlanKey) -> StateList:
        self._record(key)
        columns = (StateColumn("origin", "string"), StateColumn("late", "long"))
        delays = QueryableState("Delays", "aggregation", "storms", periods=("sec", "hour"))
        return StateList(key.plan, key.tenant, (QueryableState("Airports", "table", "storms", columns), delays))

    def query_state(self, key: PlanKey, question: StateQuestion) -> StateRows:
        source = self.state_list(key).sources[0]
        self.questions.append(question)
        if "broken" in question.query:
            raise QueryInvalidError((PROBLEM,))
        if "busy" in question.query:
            raise ProcessSilentError("the stage storms in task 0: had no time")
        return StateRows(key.plan, key.tenant, source.stage, source.columns, (("<b>ORD</b>", 7), (None, None)), 9)

    def deploy_rules(
        self,
        tenant: int,
        rule_set: str,
        files: tuple[RuleFile, ...],
        revision: str = "",
        *,
        removes: bool = True,
        dry_run: bool = False,
    ) -> RuleSetReport:
        self._look()
        require_rule_set_name(rule_set)
        require_files(rule_set, files)
        broken = tuple(
            RuleProblem("", one.file, "plan-invalid", "broken", (PROBLEM,)) for one in files if "broken" in one.text
        )
        changes = tuple(RuleChange("Storms", one.file, "add", "Storms was deployed", epoch=1) for one in files)
        report = report_of(rule_set, tenant, changes, broken, revision=revision, dry_run=dry_run)
        if broken:
            raise RuleSetRefusedError(report)
        return report

    def remove_rules(self, tenant: int, rule_set: str, *, dry_run: bool = False) -> RuleSetReport:
        self.rule_set(tenant, rule_set)
        change = RuleChange("Storms", "", "remove", "Storms was undeployed")
        return report_of(rule_set, tenant, (change,), dry_run=dry_run)

    def rule_set(self, tenant: int, rule_set: str) -> RuleSetDetails:
        if (tenant, rule_set) != (KEY.tenant, "weather"):
            raise UnknownRuleSetError(f"no plan of a rule set named {rule_set} is deployed for tenant {tenant}")
        return RuleSetDetails(rule_set, tenant, (DeployedRule("Storms", "a/storms.siddhiql", "1f2e", "active", TEXT),))

    def rule_sets(self, tenant: int) -> tuple[RuleSetSummary, ...]:
        return (RuleSetSummary("weather", 1),) if tenant == KEY.tenant else ()

    def checkpoints(self, key: PlanKey) -> CheckpointList:
        return checkpoint_list(self._look(), key, self._record(key).epoch)

    def clear_checkpoints(self, key: PlanKey) -> Outcome:
        return self._done(key, "clear checkpoints")

    def savepoints(self, key: PlanKey) -> SavepointList:
        return savepoint_list(self._look(), key)

    def take_savepoint(self, key: PlanKey, name: str) -> SavepointView:
        self._done(key, f"savepoint {name}")
        return savepoint_view(SavepointReport(key, name, "taking"))

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        require_savepoint(self._look(), key, name)
        self.done.append((key, f"delete savepoint {name}"))

    def _done(self, key: PlanKey, what: str) -> Outcome:
        record = self._record(key)
        self.done.append((key, what))
        return Outcome(key.plan, key.tenant, key.topology(), record.epoch, created=False, changed=True, message=what)

    def cluster(self) -> Cluster:
        snapshot = self._look()
        return Cluster(
            manager=ManagerInfo("127.0.0.1", 8904, 1, 65_000, "0.1.0", "3.11", "sqlite:///manager.db", 3_000, 1_000),
            driver=driver_view(snapshot),
            driver_missing=snapshot.driver_missing,
            workers=worker_views(snapshot),
            tasks=task_views(snapshot),
            endpoints=endpoint_views(snapshot),
            managers=self.election().managers,
            nodes=self.nodes,
        )

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        self._record(key)
        return from_points(self.points, key, wanted)

    def metric_tables(self) -> MetricTablesView:
        return self.tables

    def election(self) -> ElectionView:
        leader = next((one for one in self.managers if one.role == "leader"), None)
        return ElectionView(leader is not None and leader.asked, leader, self.managers, nodes=self.nodes)

    def overview(self) -> Overview:
        return Overview(self.now_ms, self.cluster().manager, self._look())

    def switch_nodes(self) -> NodeView:
        if self.nodes and self.nodes[0].protection == "protected":
            self.switched += 1
            return self.nodes[1]
        raise NodeSwitchError("there are no two nodes here")

    def order_node(self, name: str, order: NodeOrder) -> NodeView:
        found = node_to_order(self.nodes, name)
        self.ordered.append((name, order))
        return found

    def restart_nodes(self) -> tuple[NodeView, ...]:
        require_protection(self.nodes)
        self.ordered.append(("", "restart"))
        return self.nodes

    def health(self) -> Health:
        return Health(self.healthy, "ok" if self.healthy else "the control loop has stopped", 12)

    def _look(self) -> ClusterSnapshot:
        if self.failure is not None:
            raise self.failure
        return self.world.snapshot()

    def _record(self, key: PlanKey):
        snapshot = self._look()
        if key not in snapshot.plans:
            raise unknown_plan(key)
        return snapshot.plans[key]

    def _summary(self, key: PlanKey) -> PlanSummary:
        snapshot = self.world.snapshot()
        record = snapshot.plans[key]
        return PlanSummary(
            plan=key.plan,
            tenant=key.tenant,
            topology=key.topology(),
            description=record.compiled.description if record.compiled else "",
            epoch=record.epoch,
            created_ms=record.stored.created_ms,
            updated_ms=record.stored.updated_ms,
            status=plan_status(snapshot, key),
        )


PROBLEM = PlanProblem(
    code="unknown-stream",
    message="stream 'Departure' is not defined",
    hint="did you mean 'Departures'?",
    line=2,
    column=6,
    end_line=2,
    end_column=15,
    rendered="line 2, column 6: stream 'Departure' is not defined\n    from Departure\n         ^^^^^^^^^",
)
WARNING = PlanProblem("odd", "that is odd", "", 0, 0, 0, 0, "that is odd")
