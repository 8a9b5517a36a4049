"""The part of the REST API that tells how well everything is: errors, workers, the checkpoints of all plans."""

from __future__ import annotations

from flask import request

from cep_manager.checkpoints.view import CheckpointOverview, checkpoint_overview
from cep_manager.errors import UnknownPlanError, UnknownWorkerError
from cep_manager.history.errors import ErrorList, PlanErrors, ProcessErrors
from cep_manager.monitoring.error_view import plan_errors, process_errors, tenant_errors
from cep_manager.monitoring.worker_view import WorkerDetails, WorkerList, worker_details, worker_list
from cep_manager.web.api.calls import Api, plan_key
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.ports import ManagerView


def health_routes(api: Api, view: ManagerView) -> None:
    """Errors, workers, and the checkpoints of all plans."""

    @api.get("/exceptions", "Exceptions of the tenant's plans, by kind, newest first", answers=ErrorList)
    def list_exceptions() -> ErrorList:
        return tenant_errors(view.overview().snapshot, read_tenant(request))

    @api.get(
        "/plans/<name>/exceptions",
        "Exceptions of the plan: the one that ended its topology last, then all by kind, newest first",
        answers=PlanErrors,
        fails=(UnknownPlanError,),
    )
    def list_plan_exceptions(name: str) -> PlanErrors:
        return plan_errors(view.overview().snapshot, plan_key(view, name))

    @api.get(
        "/exceptions/processes",
        "Exceptions of processes that do not belong to plans",
        answers=ProcessErrors,
        of_tenant=False,
    )
    def list_process_exceptions() -> ProcessErrors:
        return process_errors(view.overview().snapshot)

    @api.get("/checkpoints", "Checkpoints of all plans of the tenant at a glance", answers=CheckpointOverview)
    def list_all_checkpoints() -> CheckpointOverview:
        return checkpoint_overview(view.overview().snapshot, read_tenant(request))

    @api.get("/workers", "All workers, with connections, logs, sources and sinks", answers=WorkerList, of_tenant=False)
    def list_workers() -> WorkerList:
        return worker_list(view.overview().snapshot)

    @api.get("/workers/<worker>", "One worker", answers=WorkerDetails, fails=(UnknownWorkerError,), of_tenant=False)
    def show_worker(worker: str) -> WorkerDetails:
        return worker_details(view.overview().snapshot, worker)
