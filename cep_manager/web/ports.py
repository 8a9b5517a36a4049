"""What the web sees of the manager: one port for each subject, and the structs that they speak in.

REST returns these structs as JSON unchanged. Times of day are milliseconds since 1970, durations milliseconds.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Protocol

from cep_common.ids import PlanKey
from cep_common.nodes.files import NodeOrder
from cep_common.protocol.drivers import PlanHost
from cep_manager.authoring.model import EditPreview, Language, PlanTrial, Preview, Validation
from cep_manager.checkpoints.view import CheckpointList, SavepointList, SavepointView
from cep_manager.events.model import EventStreamView, SentEvents, TailFilter, TailReport
from cep_manager.graph.event_flow import EventFlow
from cep_manager.graph.model import TopologyGraph
from cep_manager.history.samples import SampleReport
from cep_manager.live.broadcaster import LiveSubscription, Look
from cep_manager.monitoring.cluster_model import (
    Cluster,
    ElectionView,
    Health,
    NodeView,
    Overview,
)
from cep_manager.monitoring.failed_events.model import (
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    ReplayedEvents,
)
from cep_manager.monitoring.logs.insights import Insights
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideList, DiscardedAside, RestoredAside
from cep_manager.plans.outcomes import Outcome, Undeployed
from cep_manager.plans.rule_sets.model import RuleFile, RuleSetDetails, RuleSetReport, RuleSetSummary
from cep_manager.plans.stored_plan import SettingsPatch
from cep_manager.scaling.model import PlanScaling
from cep_manager.state_queries.model import StateList, StateQuestion, StateRows
from siddhi.explanation import PlanExplanation
from siddhi.trial.messages import TrialResult


class Tail(Protocol):
    """Events of a stream as they pass."""

    def take(self, timeout_s: float) -> TailReport:
        """Return the events since the last call, as soon as there are some or after `timeout_s`."""

    def close(self) -> None:
        """Stop listening."""


class PlanPort(Protocol):
    """What is deployed, and how it does."""

    def plans(self, tenant: int, only: Collection[PlanKey] | None = None) -> tuple[PlanSummary, ...]:
        """Return the tenant's plans, in order of name; `only` some of them: a status takes its time."""

    def plan(self, key: PlanKey) -> PlanDetails:
        """Return one plan. Raises UnknownPlanError."""

    def plan_key(self, tenant: int, name: str) -> PlanKey:
        """Return the key of the plan of that name.

        Also for a plan that is not deployed, since its savepoints stay. Raises UnknownPlanError, with the present name
        if the plan was renamed.
        """

    def query_plan(self, key: PlanKey) -> str:
        """Return the plan's query plan as XML. Raises UnknownPlanError, and PlanInvalidError when it is unusable."""

    def graph(self, key: PlanKey) -> TopologyGraph:
        """Return the plan's topology at this moment. Raises UnknownPlanError."""

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        """Return the plan's metrics over time; it need not be deployed any longer."""

    def scaling(self, key: PlanKey) -> PlanScaling:
        """Return the plan's scaled stages and the changes of their numbers of instances. Raises UnknownPlanError."""


class PlanChangePort(Protocol):
    """Deploy, change and undeploy plans."""

    def deploy(
        self,
        tenant: int,
        text: str,
        replace: bool,
        name: str | None = None,
        rename: bool = False,
        restore: str = "",
    ) -> Outcome:
        """Store the plan in `text` and run it."""

    def rename(self, key: PlanKey, name: str) -> Outcome:
        """Give the plan another name, in its text too; nothing is restarted and nothing of it is lost.

        Raises UnknownPlanError, ChangeUnderWayError, PlanExistsError, and BadRequestError or PlanInvalidError for a
        name that cannot be.
        """

    def change_settings(self, key: PlanKey, patch: SettingsPatch) -> Outcome:
        """Change settings of the plan: intake, trace, statistics; nothing is restarted, and its state is kept.

        Raises UnknownPlanError.
        """

    def release(self, key: PlanKey, streams: Collection[str]) -> Outcome:
        """Stop holding the plan's event time back for the first events of these streams.

        Empty: for all streams that it waits for. Nothing is restarted. Raises UnknownPlanError, and BadRequestError for
        a stream that the plan does not import.
        """

    def restart(self, key: PlanKey, restore: str = "") -> Outcome:
        """Restart the plan's topology from its newest checkpoint, or from the savepoint that `restore` names.

        `none` starts it without state. Raises UnknownPlanError, ChangeUnderWayError, UnknownSavepointError.
        """

    def rebalance(self, key: PlanKey, workers: int | None, host: PlanHost | None = None) -> Outcome:
        """Run the plan on `workers` topology workers, and in a stage host (`shared`) or tasks of its `own`.

        None: as now. Raises UnknownPlanError, ChangeUnderWayError, and BadRequestError for an impossible number, or a
        plan that cannot share.
        """

    def undeploy(self, key: PlanKey, discard: bool = False) -> Undeployed:
        """Remove the plan, its topology and its checkpoints; its savepoints stay.

        It accepts no events from now on, and is removed once everything accepted is processed and delivered; with
        `discard` it goes at once, and what waits in workers is dropped and counted. Raises UnknownPlanError,
        CannotDrainError.
        """


class RuleSetPort(Protocol):
    """Deploy and remove many plans in one operation."""

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
        """Deploy, change and undeploy plans so that those of the rule set are what `files` say.

        This is one change, made as a whole or not at all. Plans whose files have gone are undeployed, unless `removes`
        is False, once what was accepted is processed. A `dry_run` changes nothing and reports the same. Raises
        RuleSetRefusedError with all problems, BadRequestError when there is no file.
        """

    def remove_rules(self, tenant: int, rule_set: str, *, dry_run: bool = False) -> RuleSetReport:
        """Undeploy all plans that the rule set deployed, once accepted events are processed.

        Raises UnknownRuleSetError, RuleSetRefusedError.
        """

    def rule_set(self, tenant: int, rule_set: str) -> RuleSetDetails:
        """Return the deployed plans of the rule set. Raises UnknownRuleSetError."""

    def rule_sets(self, tenant: int) -> tuple[RuleSetSummary, ...]:
        """Return the tenant's rule sets of which plans are deployed."""


class AuthoringPort(Protocol):
    """Check, preview, explain and try plans without deploying them."""

    def validate(self, text: str) -> Validation:
        """Return everything that is wrong with a plan's text."""

    def preview(self, tenant: int, text: str) -> Preview:
        """Preview the deployment of the plan in `text`. Raises PlanInvalidError."""

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        """Preview which state and events the deployed plan would keep if `text` replaced it.

        Nothing is deployed; the preview is made in a separate process. Raises UnknownPlanError, PlanInvalidError,
        TrialsBusyError and TrialFailedError.
        """

    def explain(self, text: str) -> PlanExplanation:
        """Explain how the engine would run the queries of the plan in `text`, in a separate process.

        Raises PlanInvalidError, TrialsBusyError and TrialFailedError.
        """

    def explain_plan(self, key: PlanKey) -> PlanExplanation:
        """Explain a deployed plan as `explain` does. Raises UnknownPlanError too."""

    def try_plan(self, trial: PlanTrial) -> TrialResult:
        """Run a plan on some events in a separate process, and return its results; nothing is deployed.

        Raises PlanInvalidError, BadRequestError for events that do not fit, TrialsBusyError and TrialFailedError.
        """

    def language(self) -> Language:
        """Describe the language that plans may use."""


class CheckpointPort(Protocol):
    """Checkpoints and savepoints of plans."""

    def checkpoints(self, key: PlanKey) -> CheckpointList:
        """Return the newest checkpoints of the plan's topology. Raises UnknownPlanError."""

    def clear_checkpoints(self, key: PlanKey) -> Outcome:
        """Order the removal of the plan's checkpoints, but not its savepoints.

        Raises UnknownPlanError, NoDriverError.
        """

    def savepoints(self, key: PlanKey) -> SavepointList:
        """Return the plan's savepoints; the plan need not be deployed."""

    def take_savepoint(self, key: PlanKey, name: str) -> SavepointView:
        """Begin a savepoint of the plan, to be kept as `name` (empty: named after the time).

        `savepoints` shows its outcome. Raises UnknownPlanError, NoDriverError, BadRequestError.
        """

    def delete_savepoint(self, key: PlanKey, name: str) -> None:
        """Order the removal of the savepoint. Raises UnknownSavepointError, NoDriverError."""


class SamplePort(Protocol):
    """Sample the events that pass a stage."""

    def sample(self, key: PlanKey, component: str, percent: float, for_s: int) -> SampleReport:
        """Sample about `percent` of a hundred events that pass a stage (empty: any) for `for_s` seconds.

        0 stops sampling. Raises UnknownPlanError, BadRequestError.
        """

    def samples(self, key: PlanKey, component: str = "") -> SampleReport:
        """Return the sampling in progress of the plan, or of one of its stages, and the samples.

        Raises UnknownPlanError.
        """


class StatePort(Protocol):
    """Query the state of running plans."""

    def state_list(self, key: PlanKey) -> StateList:
        """Return the queryable state of the plan. Raises UnknownPlanError, PlanNotRunningError."""

    def query_state(self, key: PlanKey, question: StateQuestion) -> StateRows:
        """Run an on-demand query on a table, named window or aggregation of the running plan.

        Raises UnknownPlanError, QueryInvalidError, PlanNotRunningError, ProcessSilentError, InsightBusyError.
        """


class EventPort(Protocol):
    """Send events to streams, watch them, and draw where they flow."""

    def event_streams(self, tenant: int) -> tuple[EventStreamView, ...]:
        """Return the tenant's event streams."""

    def event_flow(self, tenant: int) -> EventFlow:
        """Through what events of the tenant go: sources, streams, plans, sinks."""

    def send_events(self, tenant: int, name: str, body: bytes, kind: str, authorization: str) -> SentEvents:
        """Send the events in `body` to a worker for an imported event stream, with the rights of the caller.

        `authorization` is the caller's header. Raises UnknownStreamError, NoWorkerError, WorkerFailedError,
        WorkerRejectedEventsError.
        """

    def open_tail(self, tenant: int, name: str, wanted: TailFilter | None) -> Tail:
        """Return a live tail of an exported event stream; close it.

        Raises UnknownStreamError, NoWorkerError, TailsBusyError, WorkerFailedError, BadRequestError for the filter.
        """


class LivePort(Protocol):
    """Views that are pushed to browsers."""

    def watch(self, name: Hashable, look: Look) -> LiveSubscription:
        """Subscribe to the view that `look` renders, updated every second; the caller closes the subscription.

        Subscribers of the same `name` share the work. Raises StreamsBusyError, and what `look` raises.
        """


class FailedEventPort(Protocol):
    """Entries in the error stores of workers."""

    def failed_events(self, key: PlanKey, limit: int, authorization: str) -> FailedEventList:
        """Return the oldest `limit` entries of the plan in the error stores of workers.

        `authorization` is what these are shown. Raises UnknownPlanError, NoWorkerError, WorkerFailedError, as do the
        next two.
        """

    def replay_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> ReplayedEvents:
        """Send the chosen entries again to where they failed."""

    def discard_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> DiscardedEvents:
        """Delete the chosen entries."""


class OrphanedEventPort(Protocol):
    """Events of missing plans that workers have set aside."""

    def set_aside(self, tenant: int, authorization: str) -> AsideList:
        """Return what workers have set aside of the tenant's plans, with the rights in `authorization`.

        Raises NoWorkerError, WorkerFailedError, as do the next two.
        """

    def restore_aside(self, tenant: int, id_: str, authorization: str) -> RestoredAside:
        """Send the events to the stream of their name. Raises UnknownAsideError."""

    def discard_aside(self, tenant: int, id_: str, authorization: str) -> DiscardedAside:
        """Delete the data that was set aside. Raises UnknownAsideError."""

    def adopt_worker(self, worker: str) -> AdoptedWorker:
        """Return a worker that serves another system serves this one from now on. Raises UnknownWorkerError."""


class ClusterPort(Protocol):
    """The processes of the system, and how they are."""

    def cluster(self) -> Cluster:
        """Return all processes that are alive, of all tenants."""

    def insights(self) -> Insights:
        """Log and configurations of all processes."""

    def overview(self) -> Overview:
        """Return everything at once, for pages of the whole system."""

    def metric_tables(self) -> MetricTablesView:
        """Return the status of the tables in which the metrics of plans are recorded."""

    def election(self) -> ElectionView:
        """Return the leader and all managers.

        A manager that does not lead answers this and `health`; everything else raises NotLeaderError.
        """

    def health(self) -> Health:
        """Whether the manager does its work."""


class NodePort(Protocol):
    """The two nodes of a high-availability pair."""

    def switch_nodes(self) -> NodeView:
        """Hand over to the other node, which is the answer. Raises NodeSwitchError, NotLeaderError."""

    def order_node(self, name: str, order: NodeOrder) -> NodeView:
        """Restart node `name`, or shut it down, in order. Raises UnknownNodeError, NodeSwitchError, NotLeaderError."""

    def restart_nodes(self) -> tuple[NodeView, ...]:
        """Restart both nodes, one after the other. Raises NodeSwitchError, NotLeaderError."""


class ManagerView(
    PlanPort,
    PlanChangePort,
    RuleSetPort,
    AuthoringPort,
    CheckpointPort,
    SamplePort,
    StatePort,
    EventPort,
    LivePort,
    FailedEventPort,
    OrphanedEventPort,
    ClusterPort,
    NodePort,
    Protocol,
):
    """All that console and REST API need, by subject. Any thread may call; errors are `ManagerError`s."""
