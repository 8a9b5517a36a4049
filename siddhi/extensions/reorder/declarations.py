"""`#reorder:kslack` and `#reorder:akslack`."""

from __future__ import annotations

from siddhi.extensions.declaring import stream_function
from siddhi.parameters import BOOL, DOUBLE, LONG, NUMERIC, TIME, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError

_TIME = value("timestamp", LONG, "what events are put in order by")
_TIMEOUT = constant("timer.timeout", TIME, "how often everything held back is let out")
_MAXIMUM = constant("max.k", TIME, "the longest time that an event is delayed")
_DISCARD = constant("discard.flag", BOOL, "true: an event older than one already let out is dropped")

_CORRELATED = value("correlation.field", NUMERIC, "the number whose mean over the events is to stay accurate")
_BATCH = constant("batch.size", TIME, "after how many events the bound on lateness is adapted; 10,000 if not given")
_ERROR = constant("error.threshold", DOUBLE, "how far off the mean may be; 0.03 if not given")
_CONFIDENCE = constant("confidence.level", DOUBLE, "how surely it shall be no further off; 0.95 if not given")


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
            "lets events out in the order of an attribute, held back as long as the latest came late so far",
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
            "like kslack, but held back only as long as the accuracy of what is calculated over a value asks for",
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
