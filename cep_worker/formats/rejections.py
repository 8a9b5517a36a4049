"""Messages about events that do not match their stream.

All events of a body are accepted, or none.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cep_common.errors import InputError

MOST_DETAILS = 100


class InvalidEvent(msgspec.Struct, frozen=True):
    """The problem with one value of an event.

    `index` counts events (or lines) from 0; `attribute` is empty when the whole event is wrong.
    """

    index: int
    attribute: str
    problem: str


class EventsRejectedError(InputError):
    """Events that do not fit their stream; `details` names each problem, up to a hundred."""

    def __init__(self, reason_code: str, message: str, details: Sequence[InvalidEvent] = ()) -> None:
        super().__init__(reason_code, message)
        self.details = tuple(details)


def events_rejected(stream: str, misfits: Sequence[InvalidEvent], count: int) -> EventsRejectedError:
    """Return the refusal of `count` events of `stream` for `misfits` (not empty)."""
    wrong = len({misfit.index for misfit in misfits})
    several = f"{wrong} of {count} events do" if count > 1 else "the event does"
    return EventsRejectedError(
        "bad-events", f"{several} not fit stream {stream}; none was accepted", misfits[:MOST_DETAILS]
    )
