"""The part of the REST API that is about checkpoints and savepoints."""

from __future__ import annotations

import msgspec
from flask import Response

from cep_manager.checkpoints.view import CheckpointList, SavepointList
from cep_manager.errors import NoDriverError, UnknownPlanError, UnknownSavepointError
from cep_manager.plans.outcomes import Outcome
from cep_manager.web.api.calls import Api, json_body, plan_key
from cep_manager.web.api.routes.operations import StartedRemoval, StartedSavepoint, removal_begun, savepoint_begun
from cep_manager.web.ports import ManagerView


class TakeSavepointRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a savepoint is to be called; empty: after the time."""

    name: str = ""


def checkpoint_routes(api: Api, view: ManagerView) -> None:
    """Checkpoints and savepoints under `/plans/<name>`."""

    @api.get(
        "/plans/<name>/checkpoints", "The plan's newest checkpoints", answers=CheckpointList, fails=(UnknownPlanError,)
    )
    def list_checkpoints(name: str) -> CheckpointList:
        return view.checkpoints(plan_key(view, name))

    @api.delete(
        "/plans/<name>/checkpoints",
        "Delete the plan's checkpoints, but not its savepoints",
        answers={202: Outcome},
        fails=(UnknownPlanError, NoDriverError),
    )
    def clear_checkpoints(name: str) -> Outcome:
        return view.clear_checkpoints(plan_key(view, name))

    @api.get(
        "/plans/<name>/savepoints",
        "The savepoints of a plan, also of one that is not deployed",
        answers=SavepointList,
        fails=(UnknownPlanError,),
    )
    def list_savepoints(name: str) -> SavepointList:
        return view.savepoints(plan_key(view, name))

    @api.post(
        "/plans/<name>/savepoints",
        "Take a savepoint, named as in the body or after the current time",
        answers={202: StartedSavepoint},
        body=json_body(TakeSavepointRequest, required=False),
        fails=(UnknownPlanError, NoDriverError),
    )
    def take_savepoint(name: str, body: TakeSavepointRequest) -> Response:
        return savepoint_begun(view, view.take_savepoint(plan_key(view, name), body.name))

    @api.delete(
        "/plans/<name>/savepoints/<savepoint>",
        "Removes a savepoint",
        answers={202: StartedRemoval},
        fails=(UnknownPlanError, UnknownSavepointError, NoDriverError),
    )
    def delete_savepoint(name: str, savepoint: str) -> Response:
        key = plan_key(view, name)
        view.delete_savepoint(key, savepoint)
        return removal_begun(view, key, savepoint)
