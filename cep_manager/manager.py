"""The manager as the web sees it: reads come from the loop's snapshot; commands go to the plan store, then the loop."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import threading

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_manager.cluster import driver_view, endpoint_views, task_views, worker_views
from cep_manager.compiled_plan import CompiledPlan
from cep_manager.compiler import compile_plan, validate_plan
from cep_manager.config import ManagerConfig
from cep_manager.errors import (
    BadRequestError,
    ManagerUnavailableError,
    PlanExistsError,
    PlanInvalidError,
    UnknownPlanError,
)
from cep_manager.graph_model import TopologyGraph
from cep_manager.manager_view import (
    Cluster,
    Deployed,
    Health,
    ManagerInfo,
    PlanDetails,
    PlanSummary,
    Validation,
)
from cep_manager.plan_record import PlanRecord, PlanToRun
from cep_manager.plan_state import PlanState
from cep_manager.plan_store import PlanStore, StoredPlan
from cep_manager.service import ManagerService
from cep_manager.snapshot import Snapshot
from cep_manager.status import plan_status
from cep_manager.topology_graph import topology_graph
from siddhi.scripts.language import ScriptPolicy

logger = logging.getLogger(__name__)


class Manager:
    """Implements `ManagerView`. Any thread may call."""

    def __init__(self, config: ManagerConfig, store: PlanStore, service: ManagerService, clock: Clock) -> None:
        self._config = config
        self._store = store
        self._service = service
        self._clock = clock
        self._started_ms = clock.monotonic_ms()
        # One deployment at a time: what the store and what the loop are told must not cross.
        self._deploying = threading.Lock()

    def plans(self, tenant: int) -> tuple[PlanSummary, ...]:
        snapshot = self._live_snapshot()
        keys = sorted(key for key in snapshot.plans if key.tenant == tenant)
        return tuple(_summary(snapshot, snapshot.plans[key]) for key in keys)

    def plan(self, key: PlanKey) -> PlanDetails:
        snapshot = self._live_snapshot()
        record = _record(snapshot, key)
        summary = _summary(snapshot, record)
        return PlanDetails(
            **{field: getattr(summary, field) for field in summary.__struct_fields__},
            text=record.text,
            imported=record.compiled.imported if record.compiled else (),
            exported=record.compiled.exported if record.compiled else (),
        )

    def query_plan(self, key: PlanKey) -> str:
        record = _record(self._live_snapshot(), key)
        compiled = record.compiled or compile_plan(record.text, self._config.scripts)
        return compiled.query_plan

    def graph(self, key: PlanKey) -> TopologyGraph:
        snapshot = self._live_snapshot()
        _record(snapshot, key)
        return topology_graph(snapshot, key)

    def validate(self, text: str) -> Validation:
        return validate_plan(text, self._config.scripts)

    def deploy(self, tenant: int, text: str, replace: bool, name: str | None = None) -> Deployed:
        compiled = compile_plan(text, self._config.scripts)
        if name is not None and compiled.name != name:
            raise BadRequestError(f"the text is of a plan named {compiled.name}, the address is of {name}")
        key = PlanKey(tenant, compiled.name)
        with self._deploying:
            before = self._live_snapshot().plans.get(key)
            if before is not None and before.text == text and before.state is not PlanState.FAILED:
                message = f"{key.plan} is deployed with the same text; nothing was changed"
                return _deployed(key, before.epoch, message, created=False, changed=False)
            if before is not None and before.text != text and not replace:
                raise PlanExistsError(
                    f"a plan named {key.plan} is deployed with another text; replace it, or choose another name"
                )
            stored = self._store_plan(key, text, exists=before is not None)
            self._service.put_plan(_to_run(stored, compiled, sent_before=False))
        message = f"{key.plan} was deployed" if before is None else f"{key.plan} was deployed again"
        return _deployed(key, stored.epoch, message, created=before is None, changed=True)

    def undeploy(self, key: PlanKey) -> None:
        with self._deploying:
            known = key in self._live_snapshot().plans
            stored = self._store.remove(key)
            if not (known or stored):
                raise _unknown(key)
            self._service.remove_plan(key)

    def cluster(self) -> Cluster:
        snapshot = self._live_snapshot()
        return Cluster(
            manager=self._info(),
            driver=driver_view(snapshot),
            driver_missing=snapshot.driver_missing,
            workers=worker_views(snapshot),
            tasks=task_views(snapshot),
            endpoints=endpoint_views(snapshot),
        )

    def health(self) -> Health:
        age_ms = self._clock.monotonic_ms() - self._service.snapshot().now_ms
        if not self._service.alive():
            return Health(ok=False, message="the control loop has stopped", loop_age_ms=age_ms)
        if age_ms >= self._config.control.lease_ms:
            return Health(ok=False, message=f"the control loop has not moved for {age_ms} ms", loop_age_ms=age_ms)
        return Health(ok=True, message="ok", loop_age_ms=age_ms)

    def _store_plan(self, key: PlanKey, text: str, exists: bool) -> StoredPlan:
        now_ms = self._clock.now_ms()
        replaced = self._store.replace(key, text, now_ms) if exists else None
        return replaced or self._store.add(key, text, now_ms)

    def _live_snapshot(self) -> Snapshot:
        if not self._service.alive():
            raise ManagerUnavailableError("the control loop does not run")
        return self._service.snapshot()

    def _info(self) -> ManagerInfo:
        return ManagerInfo(
            host=self._config.host,
            control_port=self._config.control.port,
            process_id=os.getpid(),
            up_ms=self._clock.monotonic_ms() - self._started_ms,
            version=importlib.metadata.version("cep-on-spark"),
            python=platform.python_version(),
            database=self._store.address(),
            lease_ms=self._config.control.lease_ms,
            heartbeat_ms=self._config.control.heartbeat_ms,
        )


def stored_plans(store: PlanStore, scripts: ScriptPolicy) -> tuple[PlanToRun, ...]:
    """Every plan of the store, compiled; one that cannot be compiled any more says why. Raises StoreError."""
    return tuple(_compiled_from_store(stored, scripts) for stored in store.plans())


def _compiled_from_store(stored: StoredPlan, scripts: ScriptPolicy) -> PlanToRun:
    try:
        return _to_run(stored, compile_plan(stored.text, scripts), sent_before=True)
    except PlanInvalidError as error:
        logger.error("stored plan is unusable plan=%s reason=%r", stored.key.topology(), error.message)  # noqa: TRY400
        return _to_run(stored, f"the stored text cannot be compiled any more: {error.message}", sent_before=True)


def _to_run(stored: StoredPlan, compiled: CompiledPlan | str, sent_before: bool) -> PlanToRun:
    return PlanToRun(
        key=stored.key,
        text=stored.text,
        compiled=compiled,
        epoch=stored.epoch,
        created_ms=stored.created_ms,
        updated_ms=stored.updated_ms,
        sent_before=sent_before,
    )


def _summary(snapshot: Snapshot, record: PlanRecord) -> PlanSummary:
    return PlanSummary(
        plan=record.key.plan,
        tenant=record.key.tenant,
        topology=record.key.topology(),
        description=record.compiled.description if record.compiled else "",
        epoch=record.epoch,
        created_ms=record.created_ms,
        updated_ms=record.updated_ms,
        status=plan_status(snapshot, record.key),
    )


def _record(snapshot: Snapshot, key: PlanKey) -> PlanRecord:
    record = snapshot.plans.get(key)
    if record is None:
        raise _unknown(key)
    return record


def _unknown(key: PlanKey) -> UnknownPlanError:
    return UnknownPlanError(f"no plan named {key.plan} is deployed for tenant {key.tenant}")


def _deployed(key: PlanKey, epoch: int, message: str, created: bool, changed: bool) -> Deployed:
    return Deployed(
        plan=key.plan,
        tenant=key.tenant,
        topology=key.topology(),
        epoch=epoch,
        created=created,
        changed=changed,
        message=message,
    )
