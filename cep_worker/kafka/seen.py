"""The numbers of messages that a source with `seq.enabled` has accepted.

A message whose number is not larger is a repetition and is dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import msgspec

from cep_common.process.atomic_files import write_atomically
from cep_worker.kafka.fetched import Fetched
from cep_worker.kafka.messages import Refused
from cep_worker.kafka.sequences import HeaderError, without_header
from query_plan.connectors.kafka import KafkaSourceOptions

SENDER = "cep-sender"
"""The header that tells workers apart which write one sequence: each counts for itself."""
SAVE_S = 1.0


class Seen:
    """The largest number of each sequence, sender and partition, kept in a file. Lives on the source's thread."""

    def __init__(
        self,
        folder: Path,
        plan: str,
        stream: str,
        options: KafkaSourceOptions,
        cluster: str = "",
        had: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """`had` says of which topics the numbers are that were kept before files were of one cluster."""
        names = "/".join((plan, stream, options.topic_list, options.group_id))
        self._path = folder / f"{_digest(f'{names}/{cluster}' if cluster else names)}.seen.json"
        self._binary = options.is_binary_message == "true"
        self._last = _load(self._path)
        if cluster and not self._path.exists():
            before = _load(folder / f"{_digest(names)}.seen.json")
            self._last = {name: number for name, number in before.items() if had(name.partition("/")[0])}
        self._taking: dict[str, int] = {}
        """The numbers of messages that are not taken yet."""
        self._saved_at = 0.0
        self.repeated = 0

    def take_off(self, fetched: Fetched) -> list[Refused]:
        """Take the headers off; repeated messages are dropped. Gives the messages without a header.

        `took` must follow once the messages are safe: until then they may come again.
        """
        self._taking = {}
        kept: list[tuple[int, bytes]] = []
        refused: list[Refused] = []
        for index, message in enumerate(fetched.payloads()):
            try:
                sequence, number, payload = without_header(message, binary=self._binary)
            except HeaderError as error:
                refused.append(Refused(fetched.message(index), f"the message {error}"))
                continue
            name = self._name(fetched, index, sequence)
            if number <= self._taking.get(name, self._last.get(name, -1)):
                self.repeated += 1
                continue
            self._taking[name] = number
            kept.append((index, payload))
        fetched.replace(kept)
        return refused

    def took(self) -> None:
        """Note that the messages of the last `take_off` are safe."""
        self._last |= self._taking
        self._taking = {}
        if time.monotonic() - self._saved_at >= SAVE_S:
            self.save()

    def save(self) -> None:
        """Write the numbers to the file. What comes again after a crash of the last second is not known."""
        self._saved_at = time.monotonic()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(self._last))

    def _name(self, fetched: Fetched, index: int, sequence: str) -> str:
        one = fetched.message(index)
        return "/".join((one.topic, str(one.partition), fetched.header(index, SENDER), sequence))


def _load(path: Path) -> dict[str, int]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, int])
    except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _digest(names: str) -> str:
    return sha256(names.encode()).hexdigest()[:32]
