"""The interface of sink mappers, and templates, which most of them accept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from cep_common.errors import CepError, ConfigError
from cep_common.protocol.links import StreamSchema
from query_plan.connectors.templates import TEMPLATE, unknown_in
from siddhi.column_names import TIMESTAMP
from topology.events.frames import event_columns

Row = dict[str, Any]
ValueText = Callable[[str, Any], str]
"""Returns the text of a value of a type."""
ColumnTexts = Callable[[str, pa.Array], Sequence[str]]
"""Returns the texts of the values of a column, as ValueText does for each."""


class UnfitEventsError(CepError):
    """Events that cannot be encoded, by their row in the batch, each with the reason."""

    code = "unfit-events"

    def __init__(self, reasons: dict[int, str]) -> None:
        super().__init__(next(iter(reasons.values())))
        self.reasons = reasons


class SinkMapper:
    """Encode the events of one stream.

    `write` returns them one by one, `join` groups them into payloads, and `alone`, if given, makes one a payload.
    `joined` puts `header`, if there is one, before the first event. Mappers with `one_event_a_body` cannot join events.
    """

    one_event_a_body = False

    def __init__(
        self,
        content_type: str,
        write: Callable[[pa.RecordBatch], list[bytes]],
        join: Callable[[list[bytes]], bytes],
        header: bytes = b"",
        alone: Callable[[bytes], bytes] | None = None,
    ) -> None:
        self.content_type = content_type
        self.header = header
        self._write = write
        self._join = join
        self._alone = alone

    def problem(self) -> str:
        """Return why no event can be encoded now, though it may be later; empty when events can be."""
        return ""

    def events(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return each event separately.

        Raises:
            UnfitEventsError: some of them cannot be encoded.
        """
        written = self._write(batch)
        return written if self._alone is None else list(map(self._alone, written))

    def joined(self, batch: pa.RecordBatch) -> bytes:
        """Return all events of `batch` (not empty) as one payload.

        Raises:
            UnfitEventsError: some of them cannot be encoded.
        """
        return self._join(self._write(batch))


def join_lines(events: list[bytes]) -> bytes:
    """Join events, one per line."""
    return b"\n".join(events) + b"\n"


class Template:
    """A text with placeholders `{{attribute}}`, which `value` formats.

    `{{_timestamp}}` is the time of the event, unless there is such an attribute. `option` is the option that the user
    wrote it in.
    """

    def __init__(
        self,
        text: str,
        schema: StreamSchema,
        where: str,
        value: ValueText,
        option: str = "payload",
        texts: ColumnTexts | None = None,
    ) -> None:
        """Parse the text. Without `texts`, `fill_all` asks `value` for each value. Raises ConfigError."""
        pieces = TEMPLATE.split(text)
        kinds = {TIMESTAMP: "long", **dict(schema.attributes)}
        if unknown := unknown_in(text, kinds):
            raise ConfigError(f"{where}: {option}: {unknown}")
        self._first = pieces[0]
        self._rest = [(name, kinds[name], text) for name, text in zip(pieces[1::2], pieces[2::2], strict=True)]
        self._value = value
        self._texts = self._values if texts is None else texts
        self._format = "%s".join(one.replace("%", "%%") for one in pieces[::2])

    def fill(self, row: Row) -> bytes:
        """Return the text for one event."""
        parts = [self._first]
        for name, kind, text in self._rest:
            parts += (self._value(kind, row[name]), text)
        return "".join(parts).encode()

    def fill_all(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the text for each event."""
        columns = event_columns(batch)
        texts = {name: self._texts(kind, columns[name]) for name, kind, _ in self._rest}
        if not texts:
            return [self._first.encode()] * batch.num_rows
        rows = zip(*(texts[name] for name, _, _ in self._rest), strict=True)
        return list(map(str.encode, map(self._format.__mod__, rows)))

    def _values(self, kind: str, column: pa.Array) -> list[str]:
        value = self._value
        return [value(kind, one) for one in column.to_pylist()]


def parts_by_text(batch: pa.RecordBatch, template: Template) -> dict[str, pa.RecordBatch]:
    """Group the events of `batch` by the text that `template` produces, in the order of first occurrence.

    Events with the same text keep their order.
    """
    places: dict[str, list[int]] = {}
    for place, text in enumerate(template.fill_all(batch)):
        places.setdefault(text.decode(), []).append(place)
    if len(places) == 1:
        return dict.fromkeys(places, batch)
    return {text: batch.take(pa.array(rows, pa.int64())) for text, rows in places.items()}
