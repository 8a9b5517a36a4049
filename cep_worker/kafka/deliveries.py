"""Which of the messages that a producer was given the brokers refused.

The client reports refused messages alone (`delivery.report.only.error`), and those without headers to one function: a
call for each message, or a function of its own, takes as long as sending the message does. The client has nothing left
to send when the brokers have all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from functools import partial
from typing import Any

from cep_worker.kafka.targets import Target

REPORTS = {"delivery.report.only.error": True}
"""Settings of the producer."""

_Name = tuple[str, int, bytes | None, bytes | None]


class Deliveries:
    """The messages of some rows of a batch."""

    def __init__(self, targets: Sequence[Any], payloads: Sequence[bytes | str]) -> None:
        """`targets` and `payloads` of all rows of the batch."""
        self._targets = targets
        self._payloads = payloads
        self._sent: list[int] = []
        self._refused: list[tuple[Any, Any]] = []
        self._failed: dict[int, Any] = {}
        self.sent = self._sent.append
        """Note that the producer has got the message of a row, which has no headers."""
        self.refused = self._refuse

    def of_row(self, row: int) -> Any:
        """Return `on_delivery` of the library for a row whose message has headers."""
        return partial(self._refuse_row, row)

    def failed(self) -> dict[int, Any]:
        """Return the rows that the brokers do not have, with the error of each.

        A report names no row, but has the message. Of equal messages any may be the one that was refused: it does not
        matter which of them is sent again.
        """
        if self._refused:
            rows = self._by_name()
            for error, message in self._refused:
                name = _name(message.topic(), message.partition(), message.key(), message.value())
                found = rows.get(name) or rows[name[0], -1, *name[2:]]
                self._failed[found.popleft()] = error
            self._refused = []
        return self._failed

    def _by_name(self) -> dict[_Name, deque[int]]:
        rows: dict[_Name, deque[int]] = defaultdict(deque)
        for row in self._sent:
            target: Target = self._targets[row]
            rows[_name(target.topic, target.partition, target.key, self._payloads[row])].append(row)
        return rows

    def _refuse(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append((error, message))

    def _refuse_row(self, row: int, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed[row] = error


def _name(topic: str, partition: int, key: bytes | str | None, payload: bytes | str | None) -> _Name:
    return topic, partition, _bytes(key), _bytes(payload)


def _bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
