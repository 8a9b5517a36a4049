"""How operators report their execution mode and the reasons why faster operators were not used.

A choice asks the faster operator first, which returns what it needs or `NotApplicable`:

    chain = context.choices.applicable("input", "ChainOperator", plan_chain(machine, context))
    return EventMachineOperator(...) if chain is None else ChainOperator(chain, ...)
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

Made = TypeVar("Made")


class Execution(Enum):
    """How an operator processes the events of a batch."""

    COMPILED = "compiled"
    """One compiled loop over the columns."""
    BATCHES = "whole batches"
    """Python code runs for each chunk: an event, or the rows that left a window together."""
    CHUNKS = "chunk by chunk"
    """Python code runs for each chunk: an event, or what left a window together."""
    KEYS = "key by key"
    """Python code runs for each key of a batch."""
    EVENTS = "event by event"
    """Python code runs for each event."""


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """The operator cannot run this query, for the given `reason`."""

    reason: str


class Choices:
    """The operators that were ruled out while a query was built."""

    def __init__(self) -> None:
        """Create an empty record."""
        self.ruled_out: dict[tuple[str, str], str] = {}
        """The reason, by the part of the query and the operator."""
        self.row_calls: dict[str, None] = {}
        """Functions that are called for each event, in the order of the text."""

    def applicable(self, part: str, operator: str, made: Made | NotApplicable | None) -> Made | None:
        """Return `made`, or None after recording why `operator` does not run `part`.

        If `made` is None, nothing is recorded, since there was no choice.
        """
        if isinstance(made, NotApplicable):
            self.ruled_out[part, operator] = made.reason
            return None
        return made
