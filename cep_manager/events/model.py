"""Views of event streams and of the events on them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Side = Literal["imported", "exported"]
Operator = Literal["eq", "ne", "lt", "le", "gt", "ge", "contains"]


class StreamMember(msgspec.Struct, frozen=True):
    """A stream of a plan that is tied to an event stream, by its name in the plan."""

    plan: str
    stream: str


class EventStreamView(msgspec.Struct, frozen=True):
    """An event stream of a tenant: `imported` ones accept events, `exported` ones give results.

    If plans define its attributes differently, each plan has its own, called `PLAN/STREAM`.
    """

    name: str
    side: Side
    attributes: tuple[tuple[str, str], ...]
    members: tuple[StreamMember, ...]


class TailFilter(msgspec.Struct, frozen=True):
    """Only events whose `attribute` compares so with `value` (as a person wrote it)."""

    attribute: str
    operator: Operator
    value: str


class TailReport(msgspec.Struct, frozen=True):
    """Events since the last report, at most a limited number each second.

    Since the beginning `seen` events passed, `matched` of them the filter, and `shown` were delivered. `ended` says why
    no more will come.
    """

    events: list[dict[str, Any]]
    seen: int
    matched: int
    shown: int
    ended: str = ""


class SentEvents(msgspec.Struct, frozen=True):
    """A worker has accepted events."""

    stream: str
    accepted: int
    worker: str
