"""Events of a plan that failed and that workers keep: what there is, replay, discard."""

from __future__ import annotations

from typing import Annotated

import msgspec
from flask import request
from msgspec import Meta

from cep_manager.errors import BadRequestError, NoWorkerError, UnknownPlanError, WorkerFailedError
from cep_manager.monitoring.failed_events.model import (
    MOST_SHOWN,
    DiscardedEvents,
    FailedEventList,
    FailedEventSelection,
    ReplayedEvents,
)
from cep_manager.web.api.calls import Api, json_body, plan_key
from cep_manager.web.api.requests import shown_to_workers
from cep_manager.web.ports import ManagerView


class FailedEventsQuery(msgspec.Struct, frozen=True):
    """How many entries are returned."""

    limit: Annotated[int, Meta(ge=1, le=MOST_SHOWN, description="Maximum number of entries; the oldest come first")] = (
        20
    )


_FAILS = (UnknownPlanError, NoWorkerError, WorkerFailedError)


def error_routes(api: Api, view: ManagerView) -> None:
    """Add them to `api`."""

    @api.get(
        "/plans/<name>/errors",
        "Failed events of the plan that are stored (`@OnError(action='STORE')`, `on.error='STORE'`)",
        answers=FailedEventList,
        query=FailedEventsQuery,
        fails=_FAILS,
    )
    def list_errors(name: str, query: FailedEventsQuery) -> FailedEventList:
        return view.failed_events(plan_key(view, name), query.limit, shown_to_workers(request))

    @api.post(
        "/plans/<name>/errors/replay",
        "Replay stored events into their stream or sink; those that are accepted are removed from the store",
        answers=ReplayedEvents,
        body=json_body(FailedEventSelection),
        fails=(*_FAILS, BadRequestError),
    )
    def replay_errors(name: str, body: FailedEventSelection) -> ReplayedEvents:
        return view.replay_errors(plan_key(view, name), _checked(body), shown_to_workers(request))

    @api.post(
        "/plans/<name>/errors/discard",
        "Delete stored events for good",
        answers=DiscardedEvents,
        body=json_body(FailedEventSelection),
        fails=(*_FAILS, BadRequestError),
    )
    def discard_errors(name: str, body: FailedEventSelection) -> DiscardedEvents:
        return view.discard_errors(plan_key(view, name), _checked(body), shown_to_workers(request))


def _checked(choice: FailedEventSelection) -> FailedEventSelection:
    """Raise BadRequestError for one that chooses nothing, or both ids and all."""
    if choice.all == bool(choice.ids):
        raise BadRequestError(
            'specify entries, {"ids": ["…"]}, or all of them, {"all": true}', {"body": ["ids", "all"]}
        )
    return choice
