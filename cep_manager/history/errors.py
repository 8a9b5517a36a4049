"""Errors as the web shows them: groups of similar errors, and where they occurred."""

from __future__ import annotations

import hashlib
from typing import Literal

import msgspec

ErrorKind = Literal["failure", "error"]
"""A `failure` ended a topology or a process, or keeps a plan from running; an `error` was outlived."""


class ErrorPlace(msgspec.Struct, frozen=True):
    """A place where errors of a group occurred.

    A stage instance, source or sink (empty: none of them, or not known) in a process. Times are times of day.
    """

    instance: str
    host: str
    process_id: int
    first_ms: int
    last_ms: int
    count: int


class ErrorGroup(msgspec.Struct, frozen=True):
    """Errors of one plan and stage (each empty: of none) with one code, whose texts differ in numbers only.

    `text` and `traceback` (empty: there is none) are those of the newest; `places` are the newest, last one first. `id`
    stays the same as long as the group is known.
    """

    id: str
    kind: ErrorKind
    plan: str
    tenant: int
    component: str
    code: str
    text: str
    traceback: str
    first_ms: int
    last_ms: int
    count: int
    places: tuple[ErrorPlace, ...]


class PlanErrors(msgspec.Struct, frozen=True):
    """The errors of a plan, newest first.

    `root_cause` is the failure that last ended its topology; None if there was none since the manager has known the
    plan.
    """

    plan: str
    tenant: int
    root_cause: ErrorGroup | None
    errors: tuple[ErrorGroup, ...]


class ErrorList(msgspec.Struct, frozen=True):
    """The errors of all plans of a tenant, newest first."""

    tenant: int
    errors: tuple[ErrorGroup, ...]


class ProcessErrors(msgspec.Struct, frozen=True):
    """The errors of processes that concern no plan, newest first."""

    errors: tuple[ErrorGroup, ...]


def group_id(*parts: str) -> str:
    """Return a short name for a group of errors."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
