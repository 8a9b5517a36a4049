"""What workers have set aside of plans that are missing: what there is, restore, discard; and whose a worker is."""

from __future__ import annotations

from flask import request

from cep_manager.errors import (
    BadRequestError,
    NoWorkerError,
    UnknownAsideError,
    UnknownWorkerError,
    WorkerFailedError,
)
from cep_manager.monitoring.set_aside.model import AdoptedWorker, AsideList, DiscardedAside, RestoredAside
from cep_manager.web.api.calls import Api
from cep_manager.web.api.requests import read_tenant, shown_to_workers
from cep_manager.web.ports import OrphanedEventPort

_FAILS = (NoWorkerError, WorkerFailedError)
LONGEST_ID = 24


def wal_routes(api: Api, view: OrphanedEventPort) -> None:
    """Add them to `api`."""

    @api.get(
        "/wal",
        "Accepted events and results that workers have set aside, since their plan is missing and was not undeployed",
        answers=AsideList,
        fails=_FAILS,
    )
    def list_wal() -> AsideList:
        return view.set_aside(read_tenant(request), shown_to_workers(request))

    @api.post(
        "/wal/<entry>/restore",
        "Send accepted events that are set aside to the stream and plan of the same name, each once",
        answers=RestoredAside,
        fails=(*_FAILS, UnknownAsideError, BadRequestError),
    )
    def restore_wal(entry: str) -> RestoredAside:
        return view.restore_aside(read_tenant(request), _checked(entry), shown_to_workers(request))

    @api.post(
        "/wal/<entry>/discard",
        "Delete events or results that are set aside for good",
        answers=DiscardedAside,
        fails=(*_FAILS, UnknownAsideError, BadRequestError),
    )
    def discard_wal(entry: str) -> DiscardedAside:
        return view.discard_aside(read_tenant(request), _checked(entry), shown_to_workers(request))

    @api.post(
        "/workers/<worker>/adopt",
        "Let a worker that serves another system serve this one; its data is set aside",
        answers=AdoptedWorker,
        fails=(UnknownWorkerError,),
        of_tenant=False,
    )
    def adopt_worker(worker: str) -> AdoptedWorker:
        return view.adopt_worker(worker)


def _checked(id_: str) -> str:
    """Raise BadRequestError for what can be no id."""
    if not (id_.isascii() and id_.isalnum() and len(id_) <= LONGEST_ID):
        raise BadRequestError(f"an id consists of letters and digits, not {id_[:40]!r}")
    return id_
