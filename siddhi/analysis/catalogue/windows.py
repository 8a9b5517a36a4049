"""The built-in windows."""

from __future__ import annotations

from siddhi.cron import CronError, parse_cron
from siddhi.language.ast import AttributeType
from siddhi.parameters import (
    ANY,
    BOOL,
    DOUBLE,
    INT,
    LONG,
    NUMERIC,
    STRING,
    TIME,
    attribute,
    constant,
    takes,
    value,
)
from siddhi.registry import Arguments, CallError, Declaration, Kind, Overload, Parameter

_LENGTH = constant("length", INT, "how many events")
_TIME = constant("time", TIME, "how long, in milliseconds or as a time such as 1 min")
_STREAMING = constant(
    "stream.current.event", BOOL, "true: events pass at once, and the end of a batch resets the aggregates"
)
_START = constant("start.time", TIME, "the time to which batch ends are aligned, in milliseconds")
_EXTERNAL = attribute("timestamp", LONG, "the attribute that holds the event's time in milliseconds")
_GAP = constant("session.gap", LONG, "the silence that ends a session, such as 5 sec")
_KEY = attribute("session.key", STRING, "the attribute that identifies the session")
_LATENCY = constant("allowed.latency", LONG, "how long a session accepts late events; at most the gap")
_COUNT = constant("event.count", INT, "how many values")
_SUPPORT = constant("support", DOUBLE, "the share")
_ERROR = constant("error", DOUBLE, "the error allowed")
_ATTRIBUTE = attribute("attribute", STRING, "the attribute that holds the value; all that are selected, if not given")
_ATTRIBUTE_3X = attribute("attribute", ANY, "an attribute of the stream")
_SORTED = attribute("attribute", NUMERIC | STRING, "what is sorted by")
_ORDER = constant("order", STRING, "'asc' or 'desc'; required before further attributes")
_FURTHER = value("further", NUMERIC | STRING, "a further attribute, or 'asc' or 'desc' after one")
_SORTED_3X = value("attribute", ANY, "an attribute, or 'asc' or 'desc' after one")

_EXPRESSION = Parameter(
    "expression",
    STRING,
    "the condition as a text, constant or in an attribute; `first` and `last` are events too",
    condition=True,
)
_INCLUDING = value("include.triggering.event", BOOL, "true: the event that ends the batch is its last")


def _window(name: str, summary: str, *overloads: Overload, **more: object) -> Declaration:
    return Declaration(Kind.WINDOW, name, summary, overloads, **more)  # type: ignore[arg-type]


def _check_session(arguments: Arguments) -> None:
    times = [argument.value for argument in arguments if argument.type is not AttributeType.STRING]
    gap, latency = times[0], times[1] if len(times) > 1 else 0
    if isinstance(gap, int) and isinstance(latency, int) and latency > gap:
        raise CallError("the allowed latency is longer than the session gap", len(arguments) - 1)


def _check_sort(arguments: Arguments) -> None:
    attribute_came = False
    for position, argument in enumerate(arguments[1:], start=1):
        is_order = attribute_came and argument.type is AttributeType.STRING
        if str(argument.value).lower() not in {"asc", "desc"} if is_order else not argument.attribute:
            hint = "a string after an attribute is its order: write 'asc' in between"
            message = "sort takes attributes, each followed by 'asc' or 'desc' if you like"
            raise CallError(message, position, hint if is_order and argument.attribute else None)
        attribute_came = not is_order


def _check_batch(arguments: Arguments) -> None:
    length = arguments[0].value if arguments else 0
    if isinstance(length, int) and length < 0:
        raise CallError("the length cannot be negative", 0)


def _check_cron(arguments: Arguments) -> None:
    try:
        parse_cron(str(arguments[0].value))
    except CronError as error:
        raise CallError(str(error), 0, error.hint) from error


WINDOWS: tuple[Declaration, ...] = (
    _window("length", "the last n events, sliding", takes(_LENGTH)),
    _window("lengthBatch", "n events at a time", takes(_LENGTH), takes(_LENGTH, _STREAMING)),
    _window("time", "the events of the last time span, sliding", takes(_TIME)),
    _window(
        "timeBatch",
        "the events of one time span after the other",
        takes(_TIME),
        takes(_TIME, _START),
        takes(_TIME, _STREAMING),
        takes(_TIME, _START, _STREAMING),
    ),
    _window("timeLength", "the last n events, but none older than a time span", takes(_TIME, _LENGTH)),
    _window("externalTime", "like time, by a time that the events carry", takes(_EXTERNAL, _TIME)),
    _window(
        "externalTimeBatch",
        "like timeBatch, by a time that the events carry",
        takes(_EXTERNAL, _TIME),
        *(
            takes(_EXTERNAL, _TIME, start, *rest)
            for start in (_START, value("start.time", LONG, "the attribute of the first event with the start time"))
            for timeout in (constant("timeout", TIME, "how long to wait for more events before the batch is emitted"),)
            for replaced in (constant("replace.with.batchtime", BOOL, "give events the batch's end as timestamp"),)
            for rest in ((), (timeout,), (timeout, replaced))
        ),
    ),
    _window(
        "session",
        "the events between two silences",
        takes(_GAP),
        takes(_GAP, _KEY),
        takes(_GAP, _KEY, _LATENCY),
        check=_check_session,
    ),
    _window("batch", "the events that arrived together", takes(), takes(_LENGTH), check=_check_batch),
    _window(
        "sort",
        "the n smallest (or largest) events by attributes",
        takes(_LENGTH, _SORTED),
        takes(_LENGTH, _SORTED, _ORDER),
        takes(_LENGTH, _SORTED, _ORDER, _FURTHER, repeats=True),
        takes(_LENGTH, _SORTED_3X, repeats=True, only_3x=True),
        check=_check_sort,
    ),
    _window(
        "frequent",
        "the events with the n most frequent values",
        takes(_COUNT),
        takes(_COUNT, _ATTRIBUTE),
        takes(_COUNT, _ATTRIBUTE_3X, repeats=True, only_3x=True),
    ),
    _window(
        "lossyFrequent",
        "the events whose values are more frequent than a share of all",
        takes(_SUPPORT, _ERROR),
        takes(_SUPPORT, _ERROR, _ATTRIBUTE),
        takes(_SUPPORT, _ERROR, _ATTRIBUTE_3X, repeats=True, only_3x=True),
    ),
    _window(
        "cron",
        "the events between two times of a Quartz cron expression",
        takes(constant("cron.expression", STRING, "the cron expression, such as '0 */5 * * * ?', in UTC")),
        check=_check_cron,
    ),
    _window("delay", "every event, later", takes(_TIME)),
    _window(
        "expression",
        "the newest events for which an expression holds",
        takes(_EXPRESSION),
    ),
    _window(
        "expressionBatch",
        "events until an expression no longer holds, then the next batch",
        takes(_EXPRESSION),
        takes(
            _EXPRESSION,
            _INCLUDING,
        ),
        takes(
            _EXPRESSION,
            _INCLUDING,
            _STREAMING,
        ),
    ),
)
