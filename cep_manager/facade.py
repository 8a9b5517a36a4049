"""The manager as the web sees it."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
from collections.abc import Collection

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_common.inspection.endpoint import Inspection
from cep_common.process.up_time import process_up_ms
from cep_manager.commands.authoring_commands import AuthoringCommands
from cep_manager.commands.checkpoint_commands import CheckpointCommands
from cep_manager.commands.event_commands import EventCommands
from cep_manager.commands.file_plan_commands import FilePlanCommands
from cep_manager.commands.folder_watch import PlanFolderWatch
from cep_manager.commands.node_commands import NodeCommands
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.commands.plan_commands import PlanCommands
from cep_manager.commands.rule_set_commands import RuleSetCommands
from cep_manager.commands.sample_commands import SampleCommands
from cep_manager.commands.scaling import PlanScaler
from cep_manager.commands.settings_commands import SettingsCommands
from cep_manager.commands.worker_store_commands import WorkerStoreCommands
from cep_manager.config import ManagerConfig
from cep_manager.control.loop import ManagerControlLoop
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.graph.model import TopologyGraph
from cep_manager.graph.topology_graph import topology_graph
from cep_manager.live.broadcaster import Broadcaster
from cep_manager.monitoring.cluster import driver_view, endpoint_views, task_views, worker_views
from cep_manager.monitoring.cluster_model import Cluster, Health, ManagerInfo, Overview
from cep_manager.monitoring.logs.client import asking
from cep_manager.monitoring.logs.insights import Insights
from cep_manager.monitoring.logs.processes import KnownProcess, known_processes, manager_id, own_process
from cep_manager.monitoring.logs.standbys import other_managers
from cep_manager.monitoring.metric_tables.history import PlanHistory, Wanted
from cep_manager.monitoring.metric_tables.recorder import MetricRecorder
from cep_manager.monitoring.metric_tables.writer import MetricTablesView
from cep_manager.monitoring.plan_model import PlanDetails, PlanSummary
from cep_manager.monitoring.status import plan_status
from cep_manager.plans.record import PlanRecord
from cep_manager.state_queries.model import StateList, StateQuestion, StateRows
from cep_manager.state_queries.questions import StateQueries, state_list
from cep_manager.topics.keeper import TopicKeeper, TopicSweeper

logger = logging.getLogger(__name__)


class ManagerFacade:
    """Implements `ManagerView`: reads of plans and the cluster here, the rest by its parts. Any thread may call."""

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
        authoring, events = AuthoringCommands(changes, config, clock), EventCommands(changes, config, clock)
        stores, nodes = WorkerStoreCommands(changes, config), NodeCommands(service)
        self.validate, self.preview, self.preview_edit = authoring.validate, authoring.preview, authoring.preview_edit
        self.query_plan = authoring.query_plan
        self.explain, self.explain_plan = authoring.explain, authoring.explain_plan
        self.try_plan, self.language = authoring.try_plan, authoring.language
        self.event_flow, self.event_streams = events.event_flow, events.event_streams
        self.open_tail, self.send_events = events.open_tail, events.send_events
        self.failed_events = stores.failed_events
        self.replay_errors, self.discard_errors = stores.replay_errors, stores.discard_errors
        self.set_aside, self.adopt_worker = stores.set_aside, stores.adopt_worker
        self.restore_aside, self.discard_aside = stores.restore_aside, stores.discard_aside
        self.election, self.switch_nodes = nodes.election, nodes.switch_nodes
        self.order_node, self.restart_nodes = nodes.order_node, nodes.restart_nodes
        broadcaster = Broadcaster(config.live_at_once())
        self.watch, self.end_streams = broadcaster.watch, broadcaster.close
        own = manager_id(config.control_endpoint())
        self._insights = Insights(self._known_processes, asking(service.context), own, insight)
        self._state_queries = StateQueries(asking(service.context), config.scripts)
        self.file_plans = FilePlanCommands(changes)
        self.folder = PlanFolderWatch(config.plan_folder, self.file_plans, config.node.name)
        self.sweeper = TopicSweeper(changes)
        self.scaler = PlanScaler(changes, config.scaling, clock)
        self.scaling = self.scaler.view
        self.recorder = MetricRecorder(config.metrics.tables, service.led, clock)

    def plans(self, tenant: int, only: Collection[PlanKey] | None = None) -> tuple[PlanSummary, ...]:
        snapshot = self._changes.snapshot()
        chosen = snapshot.plans if only is None else [key for key in only if key in snapshot.plans]
        keys = sorted(key for key in chosen if key.tenant == tenant)
        return tuple(_summary(snapshot, snapshot.plans[key]) for key in keys)

    def plan(self, key: PlanKey) -> PlanDetails:
        snapshot = self._changes.snapshot()
        record = snapshot.record(key)
        summary = _summary(snapshot, record)
        return PlanDetails(
            **{field: getattr(summary, field) for field in summary.__struct_fields__},
            text=record.text,
            imported=record.compiled.imported if record.compiled else (),
            exported=record.compiled.exported if record.compiled else (),
        )

    def graph(self, key: PlanKey) -> TopologyGraph:
        snapshot = self._changes.snapshot()
        snapshot.record(key)
        return topology_graph(snapshot, key)

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
        return state_list(self._changes.record(key))

    def query_state(self, key: PlanKey, question: StateQuestion) -> StateRows:
        snapshot = self._changes.snapshot()
        return self._state_queries.put(snapshot, snapshot.record(key), question)

    def _known_processes(self) -> tuple[KnownProcess, ...]:
        own = own_process(self._config.control_endpoint(), os.getpid(), process_up_ms())
        return (own, *other_managers(self._service.election_status()), *known_processes(self._changes.snapshot()))

    def history(self, key: PlanKey, wanted: Wanted) -> PlanHistory:
        return self.recorder.history(key, wanted)

    def metric_tables(self) -> MetricTablesView:
        return self.recorder.view()

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
