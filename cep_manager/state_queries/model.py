"""What the web sees of on-demand queries: the question, what can be asked about, and the rows."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from cep_common.protocol.inspection import MOST_QUERY_CHARACTERS, MOST_ROWS


class StateQuestion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An on-demand `query` that reads a table, a named window or an aggregation.

    At most `limit` rows are returned.
    """

    query: Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_QUERY_CHARACTERS)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 100


class StateColumn(msgspec.Struct, frozen=True):
    """A column of the answer to an on-demand query."""

    name: str
    type: str


StateKind = Literal["table", "window", "aggregation"]


class QueryableState(msgspec.Struct, frozen=True):
    """Something of a plan that can be asked about, the stage that has it, and its attributes.

    Of an aggregation not these, but by which `periods` it can be read.
    """

    name: str
    kind: StateKind
    stage: str
    columns: tuple[StateColumn, ...] = ()
    periods: tuple[str, ...] = ()


class StateList(msgspec.Struct, frozen=True):
    """What of a plan can be asked about, by name."""

    plan: str
    tenant: int
    sources: tuple[QueryableState, ...]


class StateRows(msgspec.Struct, frozen=True):
    """What the plan's stage holds: the first `rows` of the `found` ones. A number that is none is null."""

    plan: str
    tenant: int
    stage: str
    columns: tuple[StateColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    found: int
