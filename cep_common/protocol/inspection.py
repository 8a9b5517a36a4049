"""The messages with which a manager inspects another process.

They return its newest log records, its configuration, and what a stage holds. `inspection.md` describes them.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Message

Level = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]
LEVELS: tuple[Level, ...] = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

MOST_RECORDS = 1_000
"""The maximum number of records in an answer."""

MOST_FILTER_CHARACTERS = 500

MOST_QUERY_CHARACTERS = 3_000
MOST_ROWS = 1_000
"""Maximum number of rows in the answer to an on-demand query."""

FilterText = Annotated[str, msgspec.Meta(max_length=MOST_FILTER_CHARACTERS)]
Place = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LogRecord(msgspec.Struct, frozen=True):
    """A record of a process's log; `sequence` counts them from 1 since the process started.

    `traceback` is empty when there is none.
    """

    sequence: int
    time_ms: int
    level: Level
    logger: str
    text: str
    traceback: str = ""
    thread: str = ""


class ReadLog(Message, frozen=True):
    """Requests log records of the process that runs as `run`.

    Returns the oldest records after sequence number `after`, or, without one, the newest before `before` (0: of all).
    Only records of at least `level` match that contain the text `contains`, ignoring case, and the text `mentions`.
    """

    TYPE = "read-log"
    run: str
    after: Place | None = None
    before: Place = 0
    level: Level = "DEBUG"
    contains: FilterText = ""
    mentions: FilterText = ""
    most_records: Annotated[int, msgspec.Meta(ge=1, le=MOST_RECORDS)] = 200


class LogRead(Message, frozen=True):
    """The requested `records`, oldest first.

    All records up to number `reached` have been read; `more` says that further ones match. `oldest` and `newest` are
    the numbers of the oldest and newest record in memory (0: there is none).
    """

    TYPE = "log-read"
    records: tuple[LogRecord, ...]
    reached: Place
    more: bool
    oldest: Place
    newest: Place


Origin = Literal["default", "file", "environment", "driver", "given"]
"""The source of a setting; `driver`: a stage got it from its driver, `given`: from the program that started it."""


class Setting(msgspec.Struct, frozen=True):
    """One key of a process's configuration.

    `value` and `default` are JSON, with secrets covered; `where` is the file or the environment variable that it
    comes from.
    """

    key: str
    value: str
    default: str
    origin: Origin = "default"
    where: str = ""


class ReadConfiguration(Message, frozen=True):
    """Requests the configuration of the process that runs as `run`."""

    TYPE = "read-configuration"
    run: str


class ConfigurationRead(Message, frozen=True):
    """Every setting of the process, in order of the configuration."""

    TYPE = "configuration-read"
    settings: tuple[Setting, ...]


class QueryRunningState(Message, frozen=True):
    """Queries the state of the instance of stage `component` of plan `key` in a task that runs as `run`.

    `key` None means the only plan. The on-demand `query` reads a table, a named window or an aggregation. At most
    `most_rows` rows of the result are sent.
    """

    TYPE = "query-state"
    run: str
    component: str
    query: Annotated[str, msgspec.Meta(max_length=MOST_QUERY_CHARACTERS)]
    most_rows: Annotated[int, msgspec.Meta(ge=1, le=MOST_ROWS)] = 100
    key: PlanKey | None = None


class StateFound(Message, frozen=True):
    """The result of a query.

    It has the `columns` as (name, type), and the first `rows` as JSON arrays, in which NaN and infinite numbers are
    null. `found` is the number of all rows.
    """

    TYPE = "state-found"
    columns: tuple[tuple[str, str], ...]
    rows: str
    found: int
