"""Messages as the client library gives them."""

from __future__ import annotations

from typing import Any

from cep_worker.kafka.messages import KafkaMessage


class Fetched:
    """Messages of one partition, in order. What the mapper reads of them may be put in place of their values."""

    def __init__(self, messages: list[Any]) -> None:
        self._messages = messages
        self._payloads: list[bytes] = [one.value() or b"" for one in messages]

    def __len__(self) -> int:
        return len(self._messages)

    def payloads(self) -> list[bytes]:
        return self._payloads

    def replace(self, kept: list[tuple[int, bytes]]) -> None:
        """Only these of the messages are left, by their index, with these payloads."""
        self._messages = [self._messages[index] for index, _ in kept]
        self._payloads = [payload for _, payload in kept]

    def message(self, index: int) -> KafkaMessage:
        one = self._messages[index]
        return KafkaMessage(
            topic=one.topic(),
            partition=one.partition(),
            offset=one.offset(),
            key=one.key(),
            value=one.value(),
            timestamp_ms=int(one.timestamp()[1]),
            headers=one.headers() or (),
            payload=self._payloads[index],
        )

    def header(self, index: int, name: str) -> str:
        """Return the value of a message's header, or nothing."""
        for header, value in self._messages[index].headers() or ():
            if header == name and value is not None:
                return str(value.decode(errors="replace"))
        return ""
