"""What the web sees of the manager: a read and command interface, and the structs that it speaks in.

REST gives these structs out as JSON as they are. Times of day are milliseconds since 1970, durations milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Literal, Protocol

import msgspec

from cep_common.driver_messages import RunState
from cep_common.ids import Endpoint, PlanKey
from cep_common.messages import StreamBinding
from cep_common.task_messages import StatisticsLevel
from cep_manager.authoring.model import EditPreview, Language, Preview, Trial, Validation
from cep_manager.checkpoints.view import CheckpointList, SavepointList, SavepointView
from cep_manager.control.snapshot import Snapshot
from cep_manager.election.election import LeaderChange
from cep_manager.events.model import EventFilter, EventStreamView, SentEvents, TailReport
from cep_manager.graph.event_flow import EventFlow
from cep_manager.graph.model import TopologyGraph
from cep_manager.history.samples import SampleReport
from cep_manager.live.broadcaster import Look, Watch
from cep_manager.monitoring.failed_events.model import DiscardedErrors, ErrorChoice, KeptErrors, ReplayedErrors
from cep_manager.monitoring.logs.insights import Insights
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideList, DiscardedAside, RestoredAside
from cep_manager.monitoring.status import PlanStatus
from cep_manager.plans.folder import FileProblem
from cep_manager.plans.rule_sets.model import RuleFile, RuleSetDetails, RuleSetReport, RuleSetSummary
from cep_manager.state_queries.model import StateList, StateQuestion, StateRows
from siddhi.explanation import PlanExplanation
from siddhi.trial.messages import TrialResult


class PlanSummary(msgspec.Struct, frozen=True):
    """A deployed plan and how it fares. `topology` is its topology's name."""

    plan: str
    tenant: int
    topology: str
    description: str
    epoch: int
    created_ms: int
    updated_ms: int
    status: PlanStatus


class PlanDetails(msgspec.Struct, frozen=True):
    """A deployed plan with its text, and its ties to the world (empty when its text cannot be compiled any more)."""

    plan: str
    tenant: int
    topology: str
    description: str
    epoch: int
    created_ms: int
    updated_ms: int
    status: PlanStatus
    text: str
    imported: tuple[StreamBinding, ...]
    exported: tuple[StreamBinding, ...]


class Outcome(msgspec.Struct, frozen=True):
    """What a command did to a plan. `epoch` is the one that was counted for it, or the present one when nothing was
    `changed`, because all was as asked for already."""

    plan: str
    tenant: int
    topology: str
    epoch: int
    created: bool
    changed: bool
    message: str


class Undeployed(msgspec.Struct, frozen=True):
    """What undeploying a plan did: one that is `draining` goes when its `waiting_events`, which workers accepted, are
    worked off and its `waiting_results` delivered; of another one `discarded_events` were dropped, and
    `discarded_results` are, unless their sinks take them within 30 s."""

    plan: str
    tenant: int
    draining: bool
    waiting_events: int
    discarded_events: int
    message: str
    waiting_results: int = 0
    discarded_results: int = 0


class DriverTopology(msgspec.Struct, frozen=True):
    """A topology as the driver reports it; `wanted` is False for one that is about to be ended."""

    plan: str
    tenant: int
    epoch: int
    state: RunState
    reason: str
    restarts: int
    wanted: bool


class StageHostView(msgspec.Struct, frozen=True):
    """A stage host: a process of `tenant` in which `plans` plans run, with a slot of its own."""

    name: str
    tenant: int
    state: str
    plans: int
    host: str
    process_id: int
    memory_bytes: int
    cpu_ms: int
    up_ms: int


class DriverView(msgspec.Struct, frozen=True):
    """The driver that was heard last; `live` is False once it is silent."""

    driver: str
    host: str
    process_id: int
    master: str
    slots_total: int
    slots_free: int
    web_url: str
    live: bool
    up_ms: int
    silent_ms: int
    topologies: tuple[DriverTopology, ...]
    stage_hosts: tuple[StageHostView, ...] = ()


class WorkerView(msgspec.Struct, frozen=True):
    """A worker that lives; `plans` are the topologies that it serves."""

    worker: str
    host: str
    process_id: int
    http_address: str
    ingress: Endpoint | None
    egress: Endpoint | None
    synchronised: bool
    up_ms: int
    silent_ms: int
    plans: tuple[str, ...]


class TaskView(msgspec.Struct, frozen=True):
    """A task of a topology, with the stage instances that run in it."""

    plan: str
    tenant: int
    epoch: int
    task: int
    host: str
    process_id: int
    live: bool
    up_ms: int
    silent_ms: int
    instances: tuple[str, ...]


class EndpointView(msgspec.Struct, frozen=True):
    """A registered endpoint; `connections` counts links that stand or were just promised."""

    role: str
    plan: str
    tenant: int
    epoch: int
    instance: str
    host: str
    port: int
    live: bool
    connections: int
    silent_ms: int


class ManagerInfo(msgspec.Struct, frozen=True):
    """The manager process itself. `insecure`: it takes whoever comes from anywhere, without keys or tokens."""

    host: str
    control_port: int
    process_id: int
    up_ms: int
    version: str
    python: str
    database: str
    lease_ms: int
    heartbeat_ms: int
    insecure: bool = False
    database_problem: str = ""
    """The database is not what it was: another one, or an older one. Told until a person removes the note beside it."""


ManagerRole = Literal["leader", "standby", "silent"]


class ManagerMember(msgspec.Struct, frozen=True):
    """One of the managers that share the database. A leader leads under `token` since `since_ms` (time of day); for the
    others both are 0. `asked` is the one that tells of it."""

    control: Endpoint
    http_address: str
    role: ManagerRole
    asked: bool
    token: int
    since_ms: int
    silent_ms: int


class ElectionView(msgspec.Struct, frozen=True):
    """Whether the manager that was asked leads, who does (None: nobody at the moment), and all managers in order of
    their addresses. `problem` says why the database cannot be asked; empty when it can. `changes` of leader were seen
    by the manager that was asked."""

    leads: bool
    leader: ManagerMember | None
    managers: tuple[ManagerMember, ...]
    problem: str = ""
    changes: tuple[LeaderChange, ...] = ()


class Cluster(msgspec.Struct, frozen=True):
    """Everything that is alive. `driver` is None until one registers; `driver_missing` says why none can be asked.
    `file_problems` names the files of the watched folder whose text is not what runs."""

    manager: ManagerInfo
    driver: DriverView | None
    driver_missing: str
    workers: tuple[WorkerView, ...]
    tasks: tuple[TaskView, ...]
    endpoints: tuple[EndpointView, ...]
    file_problems: tuple[FileProblem, ...] = ()
    managers: tuple[ManagerMember, ...] = ()
    metric_tables: MetricTablesView | None = None


class Overview(msgspec.Struct, frozen=True):
    """All that the manager knows at one moment, of all tenants. `now_ms` is the time of day; the times of `snapshot`
    are monotonic."""

    now_ms: int
    manager: ManagerInfo
    snapshot: Snapshot


class Health(msgspec.Struct, frozen=True):
    """`ok` is False when the control loop has not moved for a lease. One manager `leads`, the others stand by."""

    ok: bool
    message: str
    loop_age_ms: int
    leads: bool = True


class Tail(Protocol):
    """Events of a stream as they pass."""

    def take(self, timeout_s: float) -> TailReport:
        """What has come since the last call, as soon as there is something, or after `timeout_s`."""

    def close(self) -> None:
        """Nothing is listened to any more."""


class ManagerView(Protocol):
    """All that console and REST API need. Any thread may call; errors are `ManagerError`s."""

    def plans(self, tenant: int, only: Collection[PlanKey] | None = None) -> tuple[PlanSummary, ...]:
        """The tenant's plans, in order of name; `only` some of them: a status takes its time."""

    def plan(self, key: PlanKey) -> PlanDetails:
        """One plan. Raises UnknownPlanError."""

    def query_plan(self, key: PlanKey) -> str:
        """The plan's query plan as XML. Raises UnknownPlanError, and PlanInvalidError when it is unusable."""

    def graph(self, key: PlanKey) -> TopologyGraph:
        """The plan's topology at this moment. Raises UnknownPlanError."""

    def event_flow(self, tenant: int) -> EventFlow:
        """Through what events of the tenant go: sources, streams, plans, sinks."""

    def event_streams(self, tenant: int) -> tuple[EventStreamView, ...]:
        """The tenant's event streams."""

    def open_tail(self, tenant: int, name: str, wanted: EventFilter | None) -> Tail:
        """A live tail of an exported event stream; close it. Raises UnknownStreamError, NoWorkerError, TailsBusyError,
        WorkerFailedError, BadRequestError for the filter."""

    def watch(self, name: Hashable, look: Look) -> Watch:
        """What `look` gives, and what changes in it every second; close it. Whoever watches the same `name` shares the
        work. Raises StreamsBusyError, and what `look` raises."""

    def send_events(self, tenant: int, name: str, body: bytes, kind: str, authorization: str) -> SentEvents:
        """A worker has taken the events in `body` for an imported event stream, on behalf of whoever `authorization`
        (a header) shows. Raises UnknownStreamError, NoWorkerError, WorkerFailedError, EventsRefusedError."""

    def validate(self, text: str) -> Validation:
        """Everything that is wrong with a plan's text."""

    def preview(self, tenant: int, text: str) -> Preview:
        """What deploying the plan in `text` would make. Raises PlanInvalidError."""

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        """What the plan in `text` would keep of the deployed plan in whose place it came, found in a process of its
        own; nothing is deployed. Raises UnknownPlanError, PlanInvalidError, TrialsBusyError and TrialFailedError."""

    def explain(self, text: str) -> PlanExplanation:
        """How the engine would run the queries of the plan in `text`, found in a process of its own. Raises
        PlanInvalidError, TrialsBusyError and TrialFailedError."""

    def explain_plan(self, key: PlanKey) -> PlanExplanation:
        """As `explain`, of a deployed plan. Raises UnknownPlanError too."""

    def try_plan(self, trial: Trial) -> TrialResult:
        """What a plan gives for some events, found in a process of its own; nothing is deployed. Raises
        PlanInvalidError, BadRequestError for events that do not fit, TrialsBusyError and TrialFailedError."""

    def language(self) -> Language:
        """What plans may write."""

    def deploy(
        self,
        tenant: int,
        text: str,
        replace: bool,
        name: str | None = None,
        rename: bool = False,
        restore: str = "",
    ) -> Outcome:
        """The plan in `text` is stored and should run. In place of a plan that runs it comes as soon as it can; when it
        cannot, that one runs on. Raises PlanInvalidError with all problems; PlanExistsError when another text is
        deployed under its name and `replace` is False; BadRequestError when its name is not `name`. With `rename`
        the plan `name` is renamed first; UnknownPlanError when there was none, PlanExistsError when there is one of the
        new name. `restore` names the savepoint that it begins from (UnknownSavepointError), or is `none`."""

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """Return what the plan of that name is known by; of one that is not deployed, too, since its savepoints stay.
        Raises UnknownPlanError, which tells the present name, when the plan was renamed."""

    def rename(self, key: PlanKey, name: str) -> Outcome:
        """Give the plan another name, in its text too; nothing is restarted and nothing of it is lost. Raises
        UnknownPlanError, ChangeUnderWayError, PlanExistsError, and BadRequestError or PlanInvalidError for a name that
        cannot be."""

    def set_trace(self, key: PlanKey, trace: bool) -> Outcome:
        """Workers write the plan's events to their logs, or do not; nothing is restarted. Raises UnknownPlanError."""

    def set_statistics(self, key: PlanKey, level: StatisticsLevel) -> Outcome:
        """The plan's stages count at that level; nothing is restarted. Raises UnknownPlanError."""

    def release(self, key: PlanKey, streams: Collection[str]) -> Outcome:
        """The plan's event time does not wait for the first event of these streams any more; empty: of all that it
        waits for. Nothing is restarted. Raises UnknownPlanError, and BadRequestError for a stream that the plan does
        not import."""

    def set_intake(self, key: PlanKey, intake: bool) -> Outcome:
        """Workers take events in for the plan, or do not; its state is kept. Raises UnknownPlanError."""

    def restart(self, key: PlanKey, restore: str = "") -> Outcome:
        """The plan's topology is ended and started again, from its newest checkpoint, or from the savepoint that
        `restore` names; `none`: without state. Raises UnknownPlanError, ChangeUnderWayError, UnknownSavepointError."""

    def rebalance(self, key: PlanKey, workers: int) -> Outcome:
        """The plan should run on `workers` topology workers. Raises UnknownPlanError, ChangeUnderWayError, and
        BadRequestError for a number that cannot be."""

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        """Remove the plan, its topology and its checkpoints; its savepoints stay. It takes no events in from now on,
        and goes once all that was accepted is worked off and delivered; with `discard` it goes at once, and what waits
        in workers is dropped and counted. Raises UnknownPlanError, CannotDrainError."""

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
        """Deploy, change and undeploy plans so that those of the rule set are what `files` say, as one change, which is
        made as a whole or not at all. Plans whose files have gone are undeployed, unless `removes` is False, once what
        was accepted is worked off. A `dry_run` changes nothing and reports the same. Raises RuleSetRefusedError with
        everything that stands in the way, BadRequestError when there is no file."""

    def remove_rules(self, tenant: int, rule_set: str, *, dry_run: bool = False) -> RuleSetReport:
        """Undeploy all plans that the rule set deployed, once what was accepted is worked off. Raises
        UnknownRuleSetError, RuleSetRefusedError."""

    def rule_set(self, tenant: int, rule_set: str) -> RuleSetDetails:
        """Return what is deployed of the rule set. Raises UnknownRuleSetError."""

    def rule_sets(self, tenant: int) -> tuple[RuleSetSummary, ...]:
        """Return the tenant's rule sets of which plans are deployed."""

    def checkpoints(self, key: PlanKey) -> CheckpointList:
        """The newest checkpoints of the plan's topology. Raises UnknownPlanError."""

    def clear_checkpoints(self, key: PlanKey) -> Outcome:
        """The plan's checkpoints are to be removed, but for its savepoints. Raises UnknownPlanError, NoDriverError."""

    def savepoints(self, key: PlanKey) -> SavepointList:
        """The plan's savepoints; the plan need not be deployed."""

    def take_savepoint(self, key: PlanKey, name: str) -> SavepointView:
        """A checkpoint of the plan is being taken, to be kept as `name` (empty: named after the time); `savepoints`
        tells what became of it. Raises UnknownPlanError, NoDriverError, BadRequestError."""

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """The savepoint is to be removed. Raises UnknownSavepointError, NoDriverError."""

    def sample(self, key: PlanKey, component: str, percent: float, for_s: int) -> SampleReport:
        """About `percent` of a hundred events that go through a stage (empty: through any) are told of for `for_s`
        seconds; 0 ends that. Raises UnknownPlanError, BadRequestError."""

    def samples(self, key: PlanKey, component: str = "") -> SampleReport:
        """What is being sampled of the plan, or of one of its stages, and what was seen. Raises UnknownPlanError."""

    def state_list(self, key: PlanKey) -> StateList:
        """What of the plan can be asked about. Raises UnknownPlanError, PlanNotRunningError."""

    def query_state(self, key: PlanKey, question: StateQuestion) -> StateRows:
        """What a table, named window or aggregation of the running plan holds. Raises UnknownPlanError,
        QueryInvalidError, PlanNotRunningError, ProcessSilentError, InsightBusyError."""

    def kept_errors(self, key: PlanKey, limit: int, authorization: str) -> KeptErrors:
        """The oldest `limit` entries of the plan in the error stores of workers; `authorization` is what these are
        shown. Raises UnknownPlanError, NoWorkerError, WorkerFailedError, as do the next two."""

    def replay_errors(self, key: PlanKey, choice: ErrorChoice, authorization: str) -> ReplayedErrors:
        """The chosen entries go where they failed once more."""

    def discard_errors(self, key: PlanKey, choice: ErrorChoice, authorization: str) -> DiscardedErrors:
        """The chosen entries are gone."""

    def set_aside(self, tenant: int, authorization: str) -> AsideList:
        """What workers have set aside of the tenant's plans; `authorization` is what they are shown. Raises
        NoWorkerError, WorkerFailedError, as do the next two."""

    def restore_aside(self, tenant: int, id_: str, authorization: str) -> RestoredAside:
        """The events go to the stream of their name. Raises UnknownAsideError."""

    def discard_aside(self, tenant: int, id_: str, authorization: str) -> DiscardedAside:
        """It is gone for good. Raises UnknownAsideError."""

    def adopt_worker(self, worker: str) -> AdoptedWorker:
        """A worker that serves another system serves this one from now on. Raises UnknownWorkerError."""

    def cluster(self) -> Cluster:
        """All processes that are alive, of all tenants."""

    def insights(self) -> Insights:
        """Logs and configurations of all processes."""

    def overview(self) -> Overview:
        """Everything at once, for who presents the whole system."""

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        """What the plan did over time; it need not be deployed any more."""

    def metric_tables(self) -> MetricTablesView:
        """How the tables fare in which the figures of plans are recorded."""

    def election(self) -> ElectionView:
        """Who leads. A manager that does not lead answers this and `health`; all else raises NotLeaderError."""

    def health(self) -> Health:
        """Whether the manager does its work."""
