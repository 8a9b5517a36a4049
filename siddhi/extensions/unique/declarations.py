"""`unique:` windows, which hold at most one event for each key, and `#unique:deduplicate`."""

from __future__ import annotations

from siddhi.extensions.declaring import stream_function, window
from siddhi.parameters import ANY, BOOL, INT, LONG, OBJECT, TIME, attribute, constant, takes, value
from siddhi.plugins.extension import Extension

_KEY = value("unique.key", ANY - OBJECT, "what must differ from event to event")
_LENGTH = constant("window.length", INT, "how many events of different keys")
_TIME = constant("window.time", TIME, "how long, in milliseconds or as a time such as 1 min")
_START = constant("start.time", TIME, "the time to which batch ends are aligned, in milliseconds")
_TIMEOUT = constant("time.out", TIME, "how long to wait for the next batch before this one goes out")
_REPLACED = constant("replace.time.stamp.with.batch.end.time", BOOL, "true: events have the batch's end as timestamp")
_EXTERNAL = attribute("time.stamp", LONG, "the attribute that holds the event's time in milliseconds")

UNIQUE = Extension(
    "unique",
    (
        window(
            "unique",
            "ever",
            "the last event of every key",
            takes(_KEY),
            takes(_KEY, _KEY, repeats=True),
            spelling_3x="unique",
        ),
        window(
            "unique",
            "first",
            "the first event of every key",
            takes(_KEY),
            takes(_KEY, _KEY, repeats=True),
            spelling_3x="firstUnique",
        ),
        window("unique", "length", "the last event of each of the last n keys, sliding", takes(_KEY, _LENGTH)),
        window("unique", "lengthBatch", "the last event of n keys at a time", takes(_KEY, _LENGTH)),
        window("unique", "firstLengthBatch", "the first event of n keys at a time", takes(_KEY, _LENGTH)),
        window("unique", "time", "the last event of every key within a time span, sliding", takes(_KEY, _TIME)),
        window(
            "unique",
            "timeBatch",
            "the last event of every key in one time span after the other",
            takes(_KEY, _TIME),
            takes(_KEY, _TIME, _START),
        ),
        window(
            "unique",
            "firstTimeBatch",
            "the first event of every key in one time span after the other",
            takes(_KEY, _TIME),
            takes(_KEY, _TIME, _START),
        ),
        window(
            "unique",
            "timeLengthBatch",
            "the last event of every key until a time span is over or there are n keys, none then until it is over",
            takes(_KEY, _TIME, _LENGTH),
            takes(_KEY, _TIME, _START, _LENGTH),
        ),
        window(
            "unique",
            "externalTimeBatch",
            "like timeBatch, by a time that the events carry",
            takes(_KEY, _EXTERNAL, _TIME),
            takes(_KEY, _EXTERNAL, _TIME, _START),
            takes(_KEY, _EXTERNAL, _TIME, _START, _TIMEOUT),
            takes(_KEY, _EXTERNAL, _TIME, _START, _TIMEOUT, _REPLACED),
            spelling_3x="uniqueExternalTimeBatch",
        ),
        stream_function(
            "unique",
            "deduplicate",
            "drops an event when one of the same key passed within a time span before",
            (),
            takes(_KEY, constant("time.interval", TIME, "the time span")),
            in_patterns=False,
        ),
    ),
    (
        "siddhi.extensions.unique.windows",
        "siddhi.extensions.unique.timed_batches",
        "siddhi.extensions.unique.deduplicate",
    ),
)
