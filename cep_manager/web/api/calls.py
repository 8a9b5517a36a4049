"""How the REST API declares its calls: route and description are one, so that neither is without the other.

    @api.post("/plans/<name>/rebalance", "Runs the plan on another number of workers", answers=Outcome,
              body=json_body(Rebalancing), fails=(UnknownPlanError,))
    def rebalance_plan(name: str, body: Rebalancing) -> Outcome: ...

A view is given the parts of its address, `query` and `body` where it declares them, and gives the body of its answer,
or that and a status, or a whole response.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
from flask import Blueprint, Request, Response, request

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_manager.errors import unknown_plan
from cep_manager.web.api.requests import read_json, read_query, read_tenant, read_text
from cep_manager.web.ports import PlanPort

View = TypeVar("View", bound=Callable[..., Any])

JSON = "application/json"
TEXT = "text/plain"
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


class Media(NamedTuple):
    """An answer that is not JSON: its media type, and what it holds in words."""

    type: str
    words: str


class Body(NamedTuple):
    """The body that a call takes: how it is read, the type of it, by which media types it may come."""

    read: Callable[[Request], Any]
    type: Any
    media: tuple[str, ...] = (JSON,)
    required: bool = True


Answers = Mapping[int, Any]
"""By status, the first is the usual one: a type that is returned as JSON, a `Media`, or None for no body."""


class RestCall(NamedTuple):
    """A call of the API.

    `path` is as Flask has it; `query` is a struct of parameters; `fails` are the errors that are its own, beside those
    that every call may meet. `of_tenant`: it speaks of one tenant's plans.
    """

    method: str
    path: str
    name: str
    summary: str
    area: str
    answers: Answers
    query: type[msgspec.Struct] | None
    body: Body | None
    fails: tuple[type[CepError], ...]
    of_tenant: bool


class Api:
    """Calls on a blueprint, and the list of what they are. `in_area` is the same for another part of the API."""

    def __init__(self, blueprint: Blueprint, area: str, calls: list[RestCall] | None = None) -> None:
        self.blueprint = blueprint
        self.calls: list[RestCall] = [] if calls is None else calls
        self._area = area

    def in_area(self, area: str) -> Api:
        """Return the same API; what it declares from now on belongs to `area`."""
        return Api(self.blueprint, area, self.calls)

    def get(self, path: str, summary: str, **parts: Any) -> Callable[[View], View]:
        """Return the view answers GET at `path`; for `parts` see `call`."""
        return self.call("GET", path, summary, **parts)

    def post(self, path: str, summary: str, **parts: Any) -> Callable[[View], View]:
        """Return the view answers POST at `path`; for `parts` see `call`."""
        return self.call("POST", path, summary, **parts)

    def put(self, path: str, summary: str, **parts: Any) -> Callable[[View], View]:
        """Return the view answers PUT at `path`; for `parts` see `call`."""
        return self.call("PUT", path, summary, **parts)

    def delete(self, path: str, summary: str, **parts: Any) -> Callable[[View], View]:
        """Return the view answers DELETE at `path`; for `parts` see `call`."""
        return self.call("DELETE", path, summary, **parts)

    def call(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        answers: Any,
        query: type[msgspec.Struct] | None = None,
        body: Body | None = None,
        fails: tuple[type[CepError], ...] = (),
        of_tenant: bool = True,
    ) -> Callable[[View], View]:
        """Register the view for `method` at `path`. `answers` is one type for 200, or a table (see `Answers`)."""
        table: Answers = answers if isinstance(answers, Mapping) else {200: answers}

        def declare(view: View) -> View:
            call = RestCall(method, path, view.__name__, summary, self._area, table, query, body, fails, of_tenant)
            self.calls.append(call)
            self.blueprint.add_url_rule(path, view.__name__, _served(call, view), methods=[method])
            return view

        return declare


def plan_text(required: bool = True) -> Body:
    """Return a body that is the text of a plan."""
    return Body(read_text, str, (TEXT,), required)


def json_body(kind: type[msgspec.Struct], required: bool = True) -> Body:
    """Return a JSON body of the form `kind`; one that is not `required` defaults to an empty object."""

    def read(asked: Request) -> msgspec.Struct:
        return read_json(asked, kind) if required or asked.get_data() else kind()

    return Body(read, kind, required=required)


def plan_key(view: PlanPort, name: str) -> PlanKey:
    """Return the plan that the present request is about.

    Raises UnknownPlanError for a name that a plan had before it was renamed, and for what can be no plan's name, so
    that the plan store is not asked for it.
    """
    tenant = read_tenant(request)
    if UNPRINTABLE.search(name):
        raise unknown_plan(PlanKey(tenant, name))
    return view.plan_key(tenant, name)


def _served(call: RestCall, view: Callable[..., Any]) -> Callable[..., Response]:
    usual = next(iter(call.answers))

    @functools.wraps(view)
    def serve(**arguments: Any) -> Response:
        if call.query is not None:
            arguments["query"] = read_query(request, call.query)
        if call.body is not None:
            arguments["body"] = call.body.read(request)
        given = view(**arguments)
        if isinstance(given, Response):
            return given
        content, status = given if isinstance(given, tuple) else (given, usual)
        if content is None:
            return Response(status=status)
        answer = Response(msgspec.json.encode(content), status, content_type=JSON)
        return _unless_known(answer) if call.method == "GET" and status == 200 else answer

    return serve


def _unless_known(answer: Response) -> Response:
    """Return the answer, or 304 without a body when the caller already has it."""
    answer.add_etag()
    answer.make_conditional(request)
    return answer
