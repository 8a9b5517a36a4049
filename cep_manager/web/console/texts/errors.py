"""Errors as the console shows them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlencode

import msgspec

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.history.errors import ErrorGroup, ErrorPlace
from cep_manager.web.console.texts.formats import count

FRESH_MS = 30 * 60_000
"""What was seen within this time is marked as fresh."""

Tone = Literal["bad", "warn", "idle"]


class PlaceRow(msgspec.Struct, frozen=True):
    """Where errors occurred.

    `log` is the address of its process's log or, when the process has `ended`, of the logs of the plan's other
    processes; empty when there is neither.
    """

    instance: str
    process: str
    first_ms: int
    last_ms: int
    count: str
    log: str
    ended: bool


class ErrorRow(msgspec.Struct, frozen=True):
    """A group of errors; `words` are the texts that a search uses. `component` has a page if it is a stage."""

    id: str
    kind: str
    tone: Tone
    plan: str
    component: str
    code: str
    text: str
    traceback: str
    first_ms: int
    last_ms: int
    count: str
    where: str
    log: str
    places: tuple[PlaceRow, ...]
    words: str


def present_errors(groups: Iterable[ErrorGroup], snapshot: ClusterSnapshot, now_ms: int) -> tuple[ErrorRow, ...]:
    """Return the groups in their order; `now_ms` is the time of day."""
    return tuple(present_error(group, snapshot, now_ms) for group in groups)


def present_error(group: ErrorGroup, snapshot: ClusterSnapshot, now_ms: int) -> ErrorRow:
    """Return the row of one group."""
    key = snapshot.key_named(group.tenant, group.plan) if group.plan else None
    processes = _processes(snapshot, key)
    places = tuple(_place(place, processes, group) for place in group.places)
    newest = places[0] if places else None
    fresh = now_ms - group.last_ms < FRESH_MS
    tone: Tone = "idle" if not fresh else "bad" if group.kind == "failure" else "warn"
    where = (newest.instance or newest.process) if newest is not None else ""
    words = (group.plan, group.component, group.code, group.text, where, newest.process if newest is not None else "")
    return ErrorRow(
        id=f"{group.plan}-{group.id}" if group.plan else group.id,
        kind=group.kind,
        tone=tone,
        plan=group.plan,
        component=group.component,
        code=group.code,
        text=group.text,
        traceback=group.traceback,
        first_ms=group.first_ms,
        last_ms=group.last_ms,
        count=count(group.count),
        where=where,
        log=newest.log if newest is not None else "",
        places=places,
        words=" ".join(words).lower(),
    )


def _place(place: ErrorPlace, processes: dict[tuple[str, int], str], group: ErrorGroup) -> PlaceRow:
    process = f"{place.host}, process {place.process_id}" if place.process_id else place.host
    found = processes.get((place.host, place.process_id), "")
    asked = {"process": found} if found else {"plan": group.plan} if group.plan else {}
    if asked and group.tenant != SUPER_TENANT:
        asked["tenant"] = str(group.tenant)
    return PlaceRow(
        instance=place.instance,
        process=process or "the manager",
        first_ms=place.first_ms,
        last_ms=place.last_ms,
        count=count(place.count),
        log=f"/logs?{urlencode(asked)}" if asked else "",
        ended=not found,
    )


def _processes(snapshot: ClusterSnapshot, key: PlanKey | None) -> dict[tuple[str, int], str]:
    """Return the names under which logs are asked for, of the processes that may have errors of the plan and live."""
    found: dict[tuple[str, int], str] = {}
    driver = snapshot.driver
    if driver is not None and driver.live(snapshot.now_ms, snapshot.lease_ms):
        name = f"driver:{driver.latest.driver}"
        found[driver.latest.host, driver.latest.process_id] = name
        found[driver.latest.host, 0] = name
    for worker in snapshot.workers:
        found[worker.latest.host, worker.latest.process_id] = f"worker:{worker.latest.worker}"
    for task in snapshot.tasks.get(key, ()) if key is not None else ():
        latest = task.latest
        found[latest.host, latest.process_id] = f"task:{latest.key.topology()}:{latest.epoch}:{latest.task}"
    return found
