"""The console's page of what a running plan holds: its tables, named windows and aggregations, asked by a query."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, render_template, request

from cep_common.errors import CepError
from cep_common.protocol.inspection import MOST_QUERY_CHARACTERS
from cep_manager.errors import BadRequestError, QueryInvalidError
from cep_manager.state_queries.model import QueryableState, StateList, StateQuestion, StateRows
from cep_manager.web.api.failures import status_of
from cep_manager.web.api.requests import read_tenant
from cep_manager.web.console.page import Page, page
from cep_manager.web.ports import ManagerView

END_OF_TIME_MS = 4_102_444_800_000
"""The year 2100."""
SHOWN_ROWS = 200
"""The number of rows of a result that are shown."""
LONGEST_VALUE = 200
"""Longer values are cut."""


def state_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page for queries of state.

    A `query` in its address is only filled in. It runs when the user submits it, since it takes time of the stage.
    """

    @console.get("/plans/<name>/state")
    @page
    def show_plan_state(name: str) -> Page:
        held = view.state_list(view.plan_key(read_tenant(request), name))
        return _rendered(held, request.args.get("query", "").strip())

    @console.post("/plans/<name>/state")
    @page
    def query_plan_state(name: str) -> Page:
        key, query = view.plan_key(read_tenant(request), name), request.form.get("query", "").strip()
        held = view.state_list(key)
        try:
            return _rendered(held, query, rows=_shown(view.query_state(key, _question(query))))
        except QueryInvalidError as error:
            return _rendered(held, query, problems=error.problems), status_of(error)
        except CepError as error:
            return _rendered(held, query, failure=error.message), status_of(error)


def _rendered(held: StateList, query: str, **shown: Any) -> str:
    sources = [{"told": one, "question": _first_question(one)} for one in held.sources]
    return render_template(
        "plan_state.html", plan=held.plan, sources=sources, query=query, most=MOST_QUERY_CHARACTERS, **shown
    )


def _question(text: str) -> StateQuestion:
    try:
        return msgspec.convert({"query": text, "limit": SHOWN_ROWS}, StateQuestion)
    except msgspec.ValidationError as error:
        raise BadRequestError(f"query: {error}") from error


def _first_question(source: QueryableState) -> str:
    """Return an example query for the state."""
    if source.kind == "aggregation":
        return f"from {source.name} within 0L, {END_OF_TIME_MS}L per '{source.periods[0]}' select * limit 20"
    return f"from {source.name} select * limit 20"


def _shown(rows: StateRows) -> dict[str, Any]:
    values = [[_value(value) for value in row] for row in rows.rows]
    return {"columns": rows.columns, "values": values, "found": rows.found, "stage": rows.stage}


def _value(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"
