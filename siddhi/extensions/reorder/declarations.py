"""`#reorder:kslack`."""

from __future__ import annotations

from siddhi.extensions.declaring import stream_function
from siddhi.extensions.extension import Extension
from siddhi.parameters import BOOL, LONG, TIME, attribute, constant, takes

_TIME = attribute("timestamp", LONG, "the attribute that events are put in order by")
_TIMEOUT = constant("timer.timeout", TIME, "how often everything held back is let out")
_MAXIMUM = constant("max.k", TIME, "the longest that an event is held back")
_DISCARD = constant("discard.flag", BOOL, "true: an event older than one already let out is dropped")

REORDER = Extension(
    "reorder",
    (
        stream_function(
            "reorder",
            "kslack",
            "lets events out in the order of an attribute, held back as long as the latest came late so far",
            (),
            takes(_TIME),
            takes(_TIME, _TIMEOUT),
            takes(_TIME, _TIMEOUT, _MAXIMUM),
            takes(_TIME, _TIMEOUT, _MAXIMUM, _DISCARD),
            in_patterns=False,
        ),
    ),
    ("siddhi.extensions.reorder.kslack",),
)
