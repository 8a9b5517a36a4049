"""`#reorder:kslack` and `#reorder:akslack`."""

from __future__ import annotations

from siddhi.extensions.declaring import stream_function
from siddhi.parameters import BOOL, DOUBLE, LONG, NUMERIC, TIME, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError

_TIME = value("timestamp", LONG, "the attribute by which events are sorted")
_TIMEOUT = constant("timer.timeout", TIME, "how often all delayed events are emitted")
_MAXIMUM = constant("max.k", TIME, "the longest time that an event is delayed")
_DISCARD = constant("discard.flag", BOOL, "true: an event older than one already emitted is dropped")

_CORRELATED = value("correlation.field", NUMERIC, "the number whose mean over the events must stay accurate")
_BATCH = constant(
    "batch.size", TIME, "the number of events after which the bound on lateness is adapted; 10,000 by default"
)
_ERROR = constant("error.threshold", DOUBLE, "the allowed error of the mean; 0.03 by default")
_CONFIDENCE = constant("confidence.level", DOUBLE, "the confidence level of that error; 0.95 by default")


def _check_akslack(arguments: Arguments) -> None:
    constants = [argument.value for argument in arguments]
    batch = constants[2] if len(constants) > 2 else None
    if isinstance(batch, int) and not isinstance(batch, bool) and batch < 1:
        raise CallError("the batch size must be above 0", 2)
    if len(constants) == 8 and not (isinstance(constants[7], float) and 0 < constants[7] < 1):
        raise CallError("the confidence level must lie between 0 and 1", 7)
    if len(constants) == 8 and isinstance(constants[6], float) and constants[6] < 0:
        raise CallError("the error threshold cannot be negative", 6)


REORDER = Extension(
    "reorder",
    (
        stream_function(
            "reorder",
            "kslack",
            "emits events in the order of an attribute, delayed by the largest lateness so far",
            (),
            takes(_TIME),
            takes(_TIME, _DISCARD),
            takes(_TIME, _TIMEOUT),
            takes(_TIME, _TIMEOUT, _DISCARD),
            takes(_TIME, _TIMEOUT, _MAXIMUM),
            takes(_TIME, _TIMEOUT, _MAXIMUM, _DISCARD),
            in_patterns=False,
        ),
        stream_function(
            "reorder",
            "akslack",
            "like kslack, but delayed only as long as the required accuracy of aggregates over a value demands",
            (),
            takes(_TIME, _CORRELATED),
            takes(_TIME, _CORRELATED, _DISCARD),
            takes(_TIME, _CORRELATED, _BATCH),
            takes(_TIME, _CORRELATED, _BATCH, _DISCARD),
            takes(_TIME, _CORRELATED, _BATCH, _TIMEOUT),
            takes(_TIME, _CORRELATED, _BATCH, _TIMEOUT, _DISCARD),
            takes(_TIME, _CORRELATED, _BATCH, _TIMEOUT, _MAXIMUM),
            takes(_TIME, _CORRELATED, _BATCH, _TIMEOUT, _MAXIMUM, _DISCARD),
            takes(_TIME, _CORRELATED, _BATCH, _TIMEOUT, _MAXIMUM, _DISCARD, _ERROR, _CONFIDENCE),
            check=_check_akslack,
            in_patterns=False,
        ),
    ),
    ("siddhi.extensions.reorder.kslack", "siddhi.extensions.reorder.akslack"),
)
