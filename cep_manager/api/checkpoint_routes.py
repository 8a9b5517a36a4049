"""The part of the REST API that is about checkpoints and savepoints."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, Response, request

from cep_common.ids import PlanKey
from cep_manager.api.requests import read_json, read_tenant
from cep_manager.manager_view import ManagerView


class TakingSavepoint(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a savepoint is to be called; empty: after the time."""

    name: str = ""


def checkpoint_routes(api: Blueprint, view: ManagerView) -> None:
    """Checkpoints and savepoints under `/plans/<name>`."""

    @api.get("/plans/<name>/checkpoints")
    def list_checkpoints(name: str) -> Response:
        return _json(view.checkpoints(_key(name)))

    @api.delete("/plans/<name>/checkpoints")
    def clear_checkpoints(name: str) -> Response:
        return _json(view.clear_checkpoints(_key(name)), 202)

    @api.get("/plans/<name>/savepoints")
    def list_savepoints(name: str) -> Response:
        return _json(view.savepoints(_key(name)))

    @api.post("/plans/<name>/savepoints")
    def take_savepoint(name: str) -> Response:
        asked = read_json(request, TakingSavepoint) if request.get_data() else TakingSavepoint()
        return _json(view.take_savepoint(_key(name), asked.name), 202)

    @api.delete("/plans/<name>/savepoints/<savepoint>")
    def delete_savepoint(name: str, savepoint: str) -> Response:
        view.delete_savepoint(_key(name), savepoint)
        return Response(status=202)


def _key(name: str) -> PlanKey:
    return PlanKey(read_tenant(request), name)


def _json(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, content_type="application/json")
