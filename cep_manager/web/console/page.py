"""What all pages of the console share: errors as pages, links that stay with the tenant, notices of what was done."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from flask import Response, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from cep_common.errors import CepError
from cep_common.ids import SUPER_TENANT
from cep_manager.web.api.failures import status_of
from cep_manager.web.api.requests import read_tenant

Page = tuple[str, int] | str | AnyResponse

NOTICES = {
    "deployed": "{plan} was deployed.",
    "redeployed": "{plan} is being updated; the previous topology runs until the new one does.",
    "unchanged": "{plan} is deployed with the same text; nothing was changed.",
    "undeployed": "{plan} was undeployed.",
    "draining": "{plan} is being undeployed: it accepts no events, and is removed once its accepted events are "
    "processed.",
    "discarded": "{plan} was undeployed. {events} accepted events were dropped; sinks have 30 s for {results} results.",
    "activate": "{plan} was activated: workers accept events for it.",
    "deactivate": "{plan} was deactivated: workers accept no events for it, its state is kept.",
    "restart": "{plan} is restarted.",
    "trace": "{plan} is traced: workers write its events to their logs.",
    "untrace": "{plan} is no longer traced.",
    "rebalance": "{plan} is being rebalanced; the previous topology runs until the new one does.",
    "rename": "{plan} was renamed.",
    "savepoint": "A savepoint of {plan} is being taken.",
    "statistics": "{plan} uses the new level of statistics from its next heartbeat on.",
    "release": "{plan} no longer waits for first events.",
    "sample": "Events of {plan} are being sampled; see the page of each stage.",
    "unsample": "Events of {plan} are no longer sampled.",
    "all-activate": "{plans} plans were activated: workers accept events for them.",
    "all-deactivate": "{plans} plans were deactivated: workers accept no events for them, their state is kept.",
    "all-undeploy": "{plans} plans are being undeployed: each is removed once its accepted events are processed.",
    "nodes-switched": "This node hands over: the other one takes over when all processes here have stopped.",
    "nodes-restart": "The passive node restarts first; this node follows when the other one is up and has every event.",
    "node-restarts": "The node restarts when all its processes have stopped.",
    "node-stops": "The node is shutting down. To bring it back, start it on its host.",
    "as-before": "{plan} already has that setting; nothing was changed.",
}


def page(show: Callable[..., Page]) -> Callable[..., Page]:
    """Return the view with errors shown as a page."""

    @functools.wraps(show)
    def shown(**arguments: str) -> Page:
        try:
            return show(**arguments)
        except CepError as error:
            status = status_of(error)
            return render_template("failure.html", code=error.code, message=error.message), status

    return shown


def fragment(show: Callable[..., Page]) -> Callable[..., Page]:
    """Return the view with errors shown in place of the fragment; the status tells the page's script."""

    @functools.wraps(show)
    def shown(**arguments: str) -> Page:
        try:
            return show(**arguments)
        except CepError as error:
            text = render_template("fragments/failure.html", code=error.code, message=error.message)
            return Response(text, status_of(error))

    return shown


def notice_of_deed(plan: str = "") -> str:
    """Return a notice of the action that led to this page; empty without one.

    The action was on `plan`, else on the plan in the address.
    """
    text = NOTICES.get(request.args.get("notice", ""), "")
    counts = {name: _count(request.args.get(name, "")) for name in ("events", "results", "plans")}
    return text.format(plan=plan or request.args.get("plan", ""), **counts)


def _count(argument: str) -> str:
    return f"{int(argument[:18]):,}" if argument.isascii() and argument.isdigit() else "some"


def link(endpoint: str, **values: Any) -> str:
    """Return the address of a page, for the same tenant."""
    return url_for(endpoint, **{**_tenant_query(), **values})


def _tenant_query() -> dict[str, Any]:
    """Return the query parameters that keep links within the tenant."""
    try:
        tenant = read_tenant(request)
    except CepError:
        return {}
    return {} if tenant == SUPER_TENANT else {"tenant": tenant}
