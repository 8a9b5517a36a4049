"""The body of one Spark task: builds its part of the topology, and works until it is stopped."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack

import msgspec
import pyarrow as pa
from pyspark import BarrierTaskContext

from cep_common.clock import SystemClock
from cep_common.errors import ConfigError
from cep_common.inspection.config import LogConfig
from cep_common.inspection.endpoint import Inspection, InspectionEndpoint, open_inspection
from cep_common.inspection.log_buffer import LogBuffer
from cep_common.inspection.log_setup import start_log
from cep_common.inspection.settings import settings_of
from cep_common.security.context import GuardedContext, open_context
from cep_common.security.roles import Role
from query_plan.xml import read_xml
from siddhi.errors import SiddhiError
from topology.checkpoint.errors import CheckpointUnreadableError, decide
from topology.checkpoint.model import Manifest
from topology.checkpoint.storage.store import open_store
from topology.checkpoint.storage.writer import PartWriter
from topology.errors import STATE_UNREADABLE, TopologyError
from topology.links.shared import HostLinks
from topology.model import Topology
from topology.spark.errors import UnfitPlanError
from topology.spark.executor_side.heartbeat_monitor import HEARTBEAT_MONITOR
from topology.spark.reasons import describe_place, describe_unfit
from topology.stages.settings import StageSettings, TaskAssignment
from topology.stages.state import stored_states
from topology.stages.tasks.call_timer import CallTimer
from topology.stages.tasks.checkpoint_agent import CheckpointAgent
from topology.stages.tasks.control import TaskControl
from topology.stages.tasks.task import Task
from topology.stages.tasks.usage import MemoryGuard

logger = logging.getLogger(__name__)


def run_task(payload: bytes, index: int, _rows: Iterable[object]) -> Iterator[None]:
    """Run task `index` of the topology in `payload` (a TaskAssignment in JSON) until it is stopped; yield nothing.

    Raises:
        UnfitPlanError: When the plan cannot run here. This, like any other error, ends the whole job.
    """
    assignment = msgspec.json.decode(payload, type=TaskAssignment)
    name = f"task-{assignment.key.tenant}-{assignment.epoch}-{index}-{os.getpid()}"
    insight = Inspection(start_task_log(assignment.log, name), settings_of(assignment.settings, otherwise="driver"))
    with ExitStack() as opened:
        _run(assignment, index, insight, opened)
    return iter(())


def start_task_log(config: LogConfig, name: str) -> LogBuffer:
    """Start the log of this task, without records of earlier tasks in this process.

    A file that cannot be written on this host is omitted.
    """
    try:
        return start_log(config, name)
    except ConfigError as error:
        ring = start_log(msgspec.structs.replace(config, folder=""), name)
        logger.warning("no log file can be written: reason=%s", error)
        return ring


def _run(assignment: TaskAssignment, index: int, insight: Inspection, opened: ExitStack) -> None:
    host = address_of_task(assignment.settings, index)
    settings = msgspec.structs.replace(assignment.settings, host=host)
    endpoint: InspectionEndpoint | None = None
    pa.set_cpu_count(assignment.cores)
    CallTimer().install()
    try:
        context = open_context(settings.security, Role.STAGE, {"stages.host": host})
        opened.callback(context.destroy, linger=0)
        endpoint = open_inspection(context, Role.STAGE, host, assignment.log, insight)
        if endpoint is not None:
            opened.callback(endpoint.close)
        task, writer = build_task(assignment, index, settings, context)
        if endpoint is not None:
            endpoint.answers_queries = task.questions.ask
        gc.collect()
        gc.freeze()  # existing objects stay: garbage collections need not visit them while events wait
    except (SiddhiError, TopologyError, ConfigError) as failure:
        raise unfit(failure, assignment.key.plan) from failure
    address = endpoint.address if endpoint is not None else None
    control = TaskControl(task, settings, context, address, assignment.priority)
    agent = CheckpointAgent(
        task, assignment.coordinator, context, SystemClock(), writer, HEARTBEAT_MONITOR.beat, assignment.priority
    )
    opened.callback(agent.close)
    agent.start()
    limit_bytes = assignment.memory_bytes or settings.task_memory_bytes
    by_plan = bool(assignment.memory_bytes)
    guard = MemoryGuard(index, limit_bytes, task.stop, by_plan=by_plan) if limit_bytes else None
    control.start()
    if guard is not None:
        guard.start()
    try:
        task.run()
    except BaseException as failure:
        if isinstance(failure, TopologyError) and failure.reason_code == STATE_UNREADABLE:
            raise unfit(failure, assignment.key.plan) from failure
        failure.add_note(describe_place(task.at_work, index, host, os.getpid()))
        raise
    finally:
        if guard is not None:
            guard.close()
        control.close()


def address_of_task(settings: StageSettings, index: int) -> str:
    """Return the address at which the Spark task that runs here can be reached."""
    return settings.host or str(BarrierTaskContext.get().getTaskInfos()[index].address.partition(":")[0])


def build_task(
    assignment: TaskAssignment,
    index: int,
    settings: StageSettings,
    context: GuardedContext,
    asks: threading.Event | None = None,
    links: HostLinks | None = None,
) -> tuple[Task, PartWriter | None]:
    """Return task `index` with its initial state, and the writer of its checkpoints, if they are taken.

    Raises SiddhiError, TopologyError and ConfigError when the plan cannot run here, CheckpointError when the state
    cannot be read.
    """
    plan = read_xml(assignment.query_plan)
    topology = Topology(assignment.key, assignment.epoch, plan, assignment.tasks, assignment.attempt)
    secures = bool(assignment.checkpoint_location)
    task = Task(
        topology, index, settings, context, SystemClock(), assignment.stands_by, secures=secures, asks=asks, links=links
    )
    try:
        return task, _begin_from_checkpoint(assignment, task)
    except BaseException:
        task.close()
        raise


def unfit(failure: Exception, plan: str) -> UnfitPlanError:
    """Return the error that ends the topology without a restart.

    State that cannot be read now will not be readable later: the operator decides where the plan begins instead.
    """
    unreadable = isinstance(failure, TopologyError) and failure.reason_code == STATE_UNREADABLE
    return UnfitPlanError(describe_unfit(failure) + (f"; {decide(plan)}" if unreadable else ""))


def _begin_from_checkpoint(assignment: TaskAssignment, task: Task) -> PartWriter | None:
    """Restore the initial states of the task, if there are any, and return the writer of later checkpoints, if any.

    Raises:
        CheckpointError: When the states cannot be read. The topology then restarts, if need be from an earlier
            checkpoint.
    """
    for receiver in task.receivers:
        receiver.server.cleared, receiver.server.doubtful = assignment.cleared, assignment.doubtful
    if not assignment.checkpoint_location:
        return None
    topology = task.topology
    store = open_store(assignment.checkpoint_location)
    manifest: Manifest | None = None
    for receiver in task.receivers:
        receiver.goes_back = assignment.goes_back
    if assignment.restore:
        manifest = store.read_manifest(assignment.restore)
        wanted = task.state.wants(stored_states.instances(manifest))
        try:
            task.state.bring(stored_states.read(store, manifest, wanted))
        except CheckpointUnreadableError as error:
            if error.reason_code == "damaged":
                store.condemn(assignment.restore, str(error))
            raise
    twice = topology.plan.delivery == "exactly-once"
    return PartWriter(store, topology.key, topology.epoch, topology.attempt, task.index, manifest, twice=twice)
