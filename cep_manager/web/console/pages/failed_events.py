"""The console's page of a plan's events that failed and that workers keep."""

from __future__ import annotations

from typing import Any

import msgspec
from flask import Blueprint, redirect, render_template, request

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_manager.errors import BadRequestError
from cep_manager.monitoring.failed_events.model import LONGEST_ID, FailedEventSelection, FailedEventView, ReplayedEvents
from cep_manager.monitoring.worker_calls import SilentWorker
from cep_manager.web.api.failures import status_of
from cep_manager.web.api.requests import read_tenant, shown_to_workers
from cep_manager.web.console.page import Page, link, page
from cep_manager.web.console.texts.formats import count
from cep_manager.web.ports import ManagerView, PlanPort

SHOWN_ENTRIES = 50
SHOWN_EVENTS = 5
"""The number of events of an entry that are shown."""
LONGEST_EVENT = 500
"""Longer ones are cut."""


def failed_event_pages(console: Blueprint, view: ManagerView) -> None:
    """Add the page, and what replays and discards one entry or all."""

    def rendered(key: PlanKey, notice: str = "", problems: tuple[str, ...] = ()) -> str:
        failed = view.failed_events(key, SHOWN_ENTRIES, shown_to_workers(request))
        return render_template(
            "plan_errors.html", plan=key.plan, found=failed.found, notice=notice,
            problems=tuple(dict.fromkeys((*problems, *_silent(failed.silent)))),
            entries=[_entry(one) for one in failed.entries],
        )  # fmt: skip

    @console.get("/plans/<name>/errors")
    @page
    def show_plan_errors(name: str) -> Page:
        discarded = request.args.get("discarded", "")
        notice = _discarded(int(discarded)) if discarded.isdecimal() and len(discarded) < 10 else ""
        return rendered(_key(view, name), notice)

    @console.post("/plans/<name>/errors/replay")
    @page
    def replay_plan_errors(name: str) -> Page:
        key = _key(view, name)
        try:
            failed = view.replay_errors(key, _choice(), shown_to_workers(request))
        except CepError as error:
            return rendered(key, problems=(error.message,)), status_of(error)
        refused = tuple(f"{one.id} stays: {one.reason}" for one in failed.refused)
        return rendered(key, _replayed(failed), (*refused, *_silent(failed.silent)))

    @console.post("/plans/<name>/errors/discard")
    @page
    def discard_plan_errors(name: str) -> Page:
        key = _key(view, name)
        failed = view.discard_errors(key, _choice(), shown_to_workers(request))
        if failed.silent:
            return rendered(key, _discarded(failed.discarded), _silent(failed.silent))
        # Reloading the page must not discard entries that were added since and that the user has not seen.
        return redirect(link("console.show_plan_errors", name=name, discarded=failed.discarded), code=303)


def _key(view: PlanPort, name: str) -> PlanKey:
    return view.plan_key(read_tenant(request), name)


def _choice() -> FailedEventSelection:
    """Return the entry that the form names, or all where the address says so. Raises BadRequestError for neither."""
    named = request.form.get("entry", "")[:LONGEST_ID]
    if bool(named) == (request.args.get("all") == "1"):
        raise BadRequestError("specify an entry, or all of them with all=1", {"form": ["entry"], "query": ["all"]})
    return FailedEventSelection(ids=(named,)) if named else FailedEventSelection(all=True)


def _entry(entry: FailedEventView) -> dict[str, Any]:
    where = f"{entry.kind} {entry.sink} of {entry.stream}" if entry.kind != "stream" else f"stream {entry.stream}"
    events = [msgspec.json.encode(event).decode() for event in entry.events[:SHOWN_EVENTS]]
    return {
        "told": entry,
        "where": f"{where}, query {entry.query}" if entry.query else where,
        "events": [event if len(event) <= LONGEST_EVENT else f"{event[:LONGEST_EVENT]}…" for event in events],
        "more": len(entry.events) - len(events),
    }


def _silent(workers: tuple[SilentWorker, ...]) -> tuple[str, ...]:
    return tuple(f"{one.worker}: {one.problem}" for one in workers)


def _replayed(replayed: ReplayedEvents) -> str:
    parts = [f"{count(replayed.replayed)} entries were replayed ({count(replayed.events)} events)."]
    if replayed.under_way:
        parts.append(f"{count(replayed.under_way)} are still being retried by their sinks.")
    if replayed.left:
        parts.append(f"{count(replayed.left)} were not replayed in time: replay again.")
    return " ".join(parts)


def _discarded(entries: int) -> str:
    return f"{count(entries)} entries were discarded."
