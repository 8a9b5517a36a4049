"""The manager as the web sees it."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
from collections.abc import Collection, Hashable

import msgspec

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.inspection.endpoint import Inspection
from cep_common.nodes.files import NodeOrder
from cep_common.process.up_time import process_up_ms
from cep_manager.authoring.edits import EditPreviews
from cep_manager.authoring.explanations import Explanations
from cep_manager.authoring.language import describe_language
from cep_manager.authoring.model import EditPreview, Language, PlanTrial, Preview, Validation
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.authoring.trials import Trials
from cep_manager.commands.checkpoint_commands import CheckpointCommands
from cep_manager.commands.file_plan_commands import FilePlanCommands
from cep_manager.commands.folder_watch import PlanFolderWatch
from cep_manager.commands.node_orders import NO_NODES, node_to_order, require_protection
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.commands.plan_commands import PlanCommands
from cep_manager.commands.reaches import known_reaches
from cep_manager.commands.rule_set_commands import RuleSetCommands
from cep_manager.commands.sample_commands import SampleCommands
from cep_manager.commands.settings_commands import SettingsCommands
from cep_manager.config import ManagerConfig
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import NodeSwitchError, NotLeaderError, NoWorkerError, UnknownWorkerError, unknown_plan
from cep_manager.events.model import EventStreamView, SentEvents, TailFilter
from cep_manager.events.sending import own_authorization, send_events
from cep_manager.events.streams import event_streams, find_stream, workers_of
from cep_manager.events.tails import StreamTail, Tails, listen_with
from cep_manager.graph.event_flow import EventFlow, event_flow
from cep_manager.graph.model import TopologyGraph
from cep_manager.graph.topology_graph import topology_graph
from cep_manager.live.broadcaster import Broadcaster, LiveSubscription, Look
from cep_manager.monitoring.cluster import driver_view, election_view, endpoint_views, task_views, worker_views
from cep_manager.monitoring.cluster_model import Cluster, ElectionView, Health, ManagerInfo, NodeView, Overview
from cep_manager.monitoring.failed_events.client import FailedEventStores
from cep_manager.monitoring.failed_events.model import (
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    ReplayedEvents,
)
from cep_manager.monitoring.logs.client import asking
from cep_manager.monitoring.logs.insights import Insights
from cep_manager.monitoring.logs.processes import KnownProcess, known_processes, manager_id, own_process
from cep_manager.monitoring.logs.standbys import other_managers
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted
from cep_manager.monitoring.metric_tables.recorder import MetricRecorder
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.monitoring.nodes import node_views
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.set_aside.client import AsideStores
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideList, DiscardedAside, RestoredAside
from cep_manager.monitoring.status import plan_status
from cep_manager.monitoring.worker_calls import live_workers
from cep_manager.nodes.agent import NodeAgent
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanRecord
from cep_manager.state_queries.model import StateList, StateQuestion, StateRows
from cep_manager.state_queries.questions import StateQueries, state_list
from cep_manager.topics.keeper import TopicKeeper, TopicSweeper
from siddhi.explanation import PlanExplanation
from siddhi.trial.messages import TrialResult

logger = logging.getLogger(__name__)


class ManagerFacade:
    """Implements `ManagerView`: reads here, commands by the parts that it is composed of. Any thread may call."""

    def __init__(
        self,
        config: ManagerConfig,
        database: str,
        service: ManagerControlLoop,
        clock: Clock,
        insight: Inspection | None = None,
        topics: TopicKeeper | None = None,
    ) -> None:
        """Combine the manager's services behind the ports of the web.

        `database` is the database's address, without a password; `insight` is this process's own log and configuration.
        """
        self._service = service
        self._clock = clock
        self._changes = changes = PlanChanges(service.store, service, clock, config, topics)
        self.compilers = changes.compilers
        plans, settings = PlanCommands(changes), SettingsCommands(changes)
        rule_sets, checkpoints, samples = RuleSetCommands(changes), CheckpointCommands(changes), SampleCommands(changes)
        self.deploy, self.plan_key, self.rename, self.undeploy = (
            plans.deploy,
            plans.plan_key,
            plans.rename,
            plans.undeploy,
        )
        self.restart, self.rebalance = plans.restart, plans.rebalance
        self.change_settings, self.release = settings.change_settings, settings.release
        self.deploy_rules, self.remove_rules = rule_sets.deploy_rules, rule_sets.remove_rules
        self.rule_set, self.rule_sets = rule_sets.rule_set, rule_sets.rule_sets
        self.checkpoints, self.clear_checkpoints = checkpoints.checkpoints, checkpoints.clear_checkpoints
        self.savepoints, self.take_savepoint = checkpoints.savepoints, checkpoints.take_savepoint
        self.delete_savepoint = checkpoints.delete_savepoint
        self.sample, self.samples = samples.sample, samples.samples
        self._database = database
        self._config = config
        self._tails = Tails(config.tail, clock, listen_with(config.security))
        self._broadcaster = Broadcaster(config.live_at_once())
        processes = BoundedProcesses(config.trial)
        self._trials = Trials(config.trial, config.scripts, clock, processes, self.compilers.check)
        self._explanations = Explanations(config.trial, config.scripts, processes)
        self._edits = EditPreviews(config.trial, config.scripts, processes, self._looked_at)
        own = manager_id(config.control_endpoint())
        self._insights = Insights(self._known_processes, asking(service.context), own, insight)
        self._state_queries = StateQueries(asking(service.context), config.scripts)
        self.file_plans = FilePlanCommands(changes)
        self.folder = PlanFolderWatch(config.plan_folder, self.file_plans)
        self.sweeper = TopicSweeper(changes)
        self.recorder = MetricRecorder(config.metrics.tables, service.led, clock)

    def plans(self, tenant: int, only: Collection[PlanKey] | None = None) -> tuple[PlanSummary, ...]:
        snapshot = self._changes.snapshot()
        chosen = snapshot.plans if only is None else [key for key in only if key in snapshot.plans]
        keys = sorted(key for key in chosen if key.tenant == tenant)
        return tuple(_summary(snapshot, snapshot.plans[key]) for key in keys)

    def plan(self, key: PlanKey) -> PlanDetails:
        snapshot = self._changes.snapshot()
        record = _record(snapshot, key)
        summary = _summary(snapshot, record)
        return PlanDetails(
            **{field: getattr(summary, field) for field in summary.__struct_fields__},
            text=record.text,
            imported=record.compiled.imported if record.compiled else (),
            exported=record.compiled.exported if record.compiled else (),
        )

    def query_plan(self, key: PlanKey) -> str:
        record = _record(self._changes.snapshot(), key)
        compiled = record.compiled or self.compilers.compile(record.text, looking=True)
        return compiled.query_plan

    def graph(self, key: PlanKey) -> TopologyGraph:
        snapshot = self._changes.snapshot()
        _record(snapshot, key)
        return topology_graph(snapshot, key)

    def event_flow(self, tenant: int) -> EventFlow:
        return event_flow(self._changes.snapshot(), tenant)

    def event_streams(self, tenant: int) -> tuple[EventStreamView, ...]:
        return event_streams(self._changes.snapshot(), tenant)

    def open_tail(self, tenant: int, name: str, wanted: TailFilter | None) -> StreamTail:
        snapshot = self._changes.snapshot()
        stream = find_stream(snapshot, tenant, "exported", name)
        endpoints = tuple(one.egress for one in workers_of(snapshot, tenant, stream) if one.egress is not None)
        if not endpoints:
            raise NoWorkerError(f"no worker lets listeners in for {name}; see egress in their configuration")
        return self._tails.open(endpoints, name, tenant, wanted)

    def watch(self, name: Hashable, look: Look) -> LiveSubscription:
        return self._broadcaster.watch(name, look)

    def end_streams(self) -> None:
        """End all live streams."""
        self._broadcaster.close()

    def send_events(self, tenant: int, name: str, body: bytes, kind: str, authorization: str) -> SentEvents:
        snapshot = self._changes.snapshot()
        stream = find_stream(snapshot, tenant, "imported", name)
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return send_events(workers_of(snapshot, tenant, stream), name, tenant, body, kind, shown)

    def failed_events(self, key: PlanKey, limit: int, authorization: str) -> FailedEventList:
        return self._error_stores(key, authorization).listed(limit)

    def replay_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> ReplayedEvents:
        return self._error_stores(key, authorization).replay(choice)

    def discard_errors(self, key: PlanKey, choice: FailedEventSelection, authorization: str) -> DiscardedEvents:
        return self._error_stores(key, authorization).discard(choice)

    def set_aside(self, tenant: int, authorization: str) -> AsideList:
        return self._aside_stores(tenant, authorization).listed()

    def restore_aside(self, tenant: int, id_: str, authorization: str) -> RestoredAside:
        return self._aside_stores(tenant, authorization).restore(id_)

    def discard_aside(self, tenant: int, id_: str, authorization: str) -> DiscardedAside:
        return self._aside_stores(tenant, authorization).discard(id_)

    def adopt_worker(self, worker: str) -> AdoptedWorker:
        snapshot = self._changes.snapshot()
        strangers = {one.report.worker: one.report for one in snapshot.strangers if one.kind == "other-system"}
        if worker not in strangers:
            raise UnknownWorkerError(
                f"no worker named {worker} that serves another system is heard: see `cep status` for those that are"
            )
        self._service.adopt_worker(worker)
        return AdoptedWorker(worker, strangers[worker].system)

    def _aside_stores(self, tenant: int, authorization: str) -> AsideStores:
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return AsideStores(live_workers(self._changes.snapshot(), "what it has set aside"), tenant, shown)

    def _error_stores(self, key: PlanKey, authorization: str) -> FailedEventStores:
        snapshot = self._changes.snapshot()
        _record(snapshot, key)
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return FailedEventStores(live_workers(snapshot, "its error store"), key, shown)

    def validate(self, text: str) -> Validation:
        return self.compilers.validate(text, known_reaches(self._service.led()))

    def preview(self, tenant: int, text: str) -> Preview:
        return self.compilers.preview(tenant, text)

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        snapshot = self._changes.snapshot()
        return self._edits.preview(snapshot, _record(snapshot, key), text)

    def explain(self, text: str) -> PlanExplanation:
        return self._explanations.explain(self._looked_at(text).query_plan)

    def explain_plan(self, key: PlanKey) -> PlanExplanation:
        return self._explanations.explain(self.query_plan(key))

    def try_plan(self, trial: PlanTrial) -> TrialResult:
        return self._trials.run(trial)

    def _looked_at(self, text: str) -> CompiledPlan:
        return self.compilers.compile(text, looking=True)

    def language(self) -> Language:
        return describe_language(self._config.scripts)

    def cluster(self) -> Cluster:
        snapshot = self._changes.snapshot()
        return Cluster(
            manager=self._info(),
            driver=driver_view(snapshot),
            driver_missing=snapshot.driver_missing,
            workers=worker_views(snapshot),
            tasks=task_views(snapshot),
            endpoints=endpoint_views(snapshot),
            file_problems=self.folder.problems(),
            managers=(election := self.election()).managers,
            nodes=election.nodes,
            metric_tables=self.metric_tables(),
        )

    def insights(self) -> Insights:
        return self._insights

    def state_list(self, key: PlanKey) -> StateList:
        return state_list(_record(self._changes.snapshot(), key))

    def query_state(self, key: PlanKey, question: StateQuestion) -> StateRows:
        snapshot = self._changes.snapshot()
        return self._state_queries.put(snapshot, _record(snapshot, key), question)

    def _known_processes(self) -> tuple[KnownProcess, ...]:
        own = own_process(self._config.control_endpoint(), os.getpid(), process_up_ms())
        return (own, *other_managers(self._service.election_status()), *known_processes(self._changes.snapshot()))

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        return self.recorder.history(key, wanted)

    def metric_tables(self) -> MetricTablesView:
        return self.recorder.view()

    def election(self) -> ElectionView:
        view = election_view(self._service.election_status(), leads=self._service.leads())
        node = self._service.node
        if node is None:
            return view
        return msgspec.structs.replace(
            view, nodes=node_views(node.nodes, node.name, node.report, view, node.under_way())
        )

    def switch_nodes(self) -> NodeView:
        node, nodes = self._of_two()
        other = require_protection(nodes)
        node.give_order(node.name, "restart")
        return other

    def order_node(self, name: str, order: NodeOrder) -> NodeView:
        node, nodes = self._of_two()
        ordered = node_to_order(nodes, name)
        node.give_order(name, order)
        return ordered

    def restart_nodes(self) -> tuple[NodeView, ...]:
        node, nodes = self._of_two()
        other = require_protection(nodes)
        node.restart_all(other.name)
        return self.election().nodes

    def _of_two(self) -> tuple[NodeAgent, tuple[NodeView, ...]]:
        """Return the agent of this node, which is the active one of two, and both nodes."""
        node, view = self._service.node, self.election()
        if node is None:
            raise NodeSwitchError(NO_NODES)
        if not view.leads:
            raise NotLeaderError("this node is passive: ask the active one")
        return node, view.nodes

    def overview(self) -> Overview:
        return Overview(now_ms=self._clock.now_ms(), manager=self._info(), snapshot=self._changes.snapshot())

    def health(self) -> Health:
        age_ms = self._clock.monotonic_ms() - self._service.snapshot().now_ms
        leads = self._service.leads()
        if not self._service.alive():
            return Health(ok=False, message="the control loop has stopped", loop_age_ms=age_ms, leads=False)
        if age_ms >= self._config.control.lease_ms:
            message = f"the control loop has not moved for {age_ms} ms"
            return Health(ok=False, message=message, loop_age_ms=age_ms, leads=leads)
        return Health(ok=True, message="ok" if leads else "ok: standby", loop_age_ms=age_ms, leads=leads)

    def _info(self) -> ManagerInfo:
        return ManagerInfo(
            host=self._config.host,
            control_port=self._config.control.port,
            process_id=os.getpid(),
            up_ms=process_up_ms(),
            version=importlib.metadata.version("cep-on-spark"),
            python=platform.python_version(),
            database=self._database,
            lease_ms=self._config.control.lease_ms,
            heartbeat_ms=self._config.control.heartbeat_ms,
            insecure=self._config.security.insecure,
            database_problem=self._service.store.database_problem(),
        )


def _summary(snapshot: ClusterSnapshot, record: PlanRecord) -> PlanSummary:
    return PlanSummary(
        plan=record.key.plan,
        tenant=record.key.tenant,
        topology=record.key.topology(),
        description=record.compiled.description if record.compiled else "",
        epoch=record.epoch,
        created_ms=record.stored.created_ms,
        updated_ms=record.stored.updated_ms,
        status=plan_status(snapshot, record.key),
    )


def _record(snapshot: ClusterSnapshot, key: PlanKey) -> PlanRecord:
    record = snapshot.plans.get(key)
    if record is None:
        raise unknown_plan(key)
    return record
