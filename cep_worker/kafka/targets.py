"""The targets of messages: topic, partition, key and headers, which may differ from event to event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from cep_worker.formats.sink_mappers.template import Row, Template
from cep_worker.formats.value_texts import value_text
from cep_worker.sinks.base import SinkContext
from query_plan.connectors.kafka import KafkaSinkOptions, is_topic
from query_plan.connectors.sinks import read_headers
from query_plan.connectors.templates import attributes_in
from topology.events.frames import event_rows


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of an event's message, its key and headers."""

    topic: str
    partition: int
    key: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class TargetError(ValueError):
    """What the event makes of an option is not a valid topic or partition."""


class Targets:
    """Makes the targets of events: one for all, or, where values stand in the options, one for each."""

    def __init__(self, options: KafkaSinkOptions, context: SinkContext) -> None:
        make = partial(Template, schema=context.schema, where=context.where(), value=_value)
        headers = read_headers(options.headers)
        self._topic = make(options.topic.strip(), option="topic")
        self._partition = make(options.partition_no.strip(), option="partition.no")
        self._key = make(options.key, option="key") if options.key else None
        self._headers = [(name, make(text, option="headers")) for name, text in headers.items()]
        self._key_alone = attributes_in(options.key) if options.key.strip().startswith("{{") else ()
        texts = (options.topic, options.partition_no, options.key, *headers.values())
        self._fixed = None if any(map(attributes_in, texts)) else self._target({})

    def of(self, batch: pa.RecordBatch) -> Sequence[Target | TargetError]:
        """Return the target of each event, or why it has none."""
        if self._fixed is not None:
            return [self._fixed] * batch.num_rows
        return list(map(self._target_or_error, event_rows(batch)))

    def _target_or_error(self, row: Row) -> Target | TargetError:
        try:
            return self._target(row)
        except TargetError as error:
            return error

    def _target(self, row: Row) -> Target:
        topic = self._topic.fill(row).decode()
        if not is_topic(topic):
            raise TargetError(f"topic: {topic[:80]!r}, computed from the event, is not a valid name of a topic")
        written = self._partition.fill(row).decode().strip()
        if written and not (written.isascii() and written.isdecimal() and len(written) <= 9):
            raise TargetError(f"partition.no: {written[:20]!r}, computed from the event, is not a partition")
        key = None if self._key is None else self._key.fill(row)
        if self._key_alone and len(self._key_alone) == 1 and row.get(self._key_alone[0]) is None:
            key = None
        headers = tuple((name, template.fill(row)) for name, template in self._headers)
        return Target(topic, int(written) if written else -1, key, headers)


def _value(kind: str, value: Any) -> str:
    return "" if value is None else value_text(kind, value)
