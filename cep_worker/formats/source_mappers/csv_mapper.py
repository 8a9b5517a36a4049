"""Reads events from CSV: one to a line, values in the order of the attributes or where `@attributes` says.

    WSO2,55.6,100                symbol = 'WSO2', price = 55.6, volume = 100
    "a ""quoted"" text",,""      an empty field is null; `""` is empty text

Fields are quoted as in RFC 4180. Files of events are read in the same way (`table_readers`).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from cep_common.errors import ConfigError
from cep_common.protocol.links import StreamSchema
from cep_worker.formats.rejections import MOST_DETAILS, EventsRejectedError, InvalidEvent, events_rejected
from cep_worker.formats.text_columns import TextColumns
from query_plan.connectors.attribute_paths import by_attribute, refuse_transport, split_paths
from query_plan.connectors.mappers import CsvSourceOptions
from query_plan.connectors.options import read_options

MOST_COLUMNS = 10_000
MOST_SHORT, MOST_PADDING = 1_000_000, 16_777_216
"""Limits of wrong and missing values, so that a small body cannot expand to a large batch."""
_END = "\x03"
"""The text in an appended last line, by whose absence an unclosed quote is detected."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """The layout of CSV. `places` are the columns of the attributes, from 0; empty: the attributes' own order.

    `header`: the first line has no values. `lenient`: missing values at the end of a line are null.
    """

    delimiter: str = ","
    header: bool = False
    lenient: bool = False
    places: tuple[int, ...] = ()

    def reader(self, schema: StreamSchema, timestamp: str | None) -> CsvEvents:
        """Return a reader of events of `schema`.

        Raises:
            InputError: `timestamp` is not a valid time attribute.
        """
        return CsvEvents(self, schema, timestamp)


def csv_format(given: Mapping[str, str], schema: StreamSchema, where: str) -> CsvFormat:
    """Return the format with the options of a mapper.

    Raises:
        ConfigError: an option cannot be used.
    """
    paths, others = split_paths(given)
    options = read_options(CsvSourceOptions, others, where)
    places = by_attribute(paths, [name for name, _ in schema.attributes], where) if paths else {}
    return CsvFormat(
        csv_delimiter(options.delimiter, where),
        "true" in (options.header_present, options.header),
        options.fail_on_unknown_attribute == "false",
        tuple(csv_place(name, text, where) for name, text in places.items()),
    )


def csv_delimiter(text: str, where: str) -> str:
    r"""Return the delimiter of fields; a tab may be written `\t`.

    Raises:
        ConfigError: the text is not one usable character.
    """
    delimiter = "\t" if text == "\\t" else text
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0' or delimiter == _END:
        raise ConfigError(f"{where}: delimiter: must be one ASCII character, no quote and no line end, not {text!r}")
    return delimiter


def csv_place(attribute: str, text: str, where: str) -> int:
    """Return the column of an attribute, from 0.

    Raises:
        ConfigError: the text is not the number of a column.
    """
    refuse_transport(attribute, text, where)
    number = text.strip()
    if not (number.isascii() and number.isdigit()) or len(number) > 5 or int(number) >= MOST_COLUMNS:
        raise ConfigError(f"{where}: {attribute}: must be the number of a column, from 0, not {text!r}")
    return int(number)


class CsvEvents:
    """Reads CSV events of `schema`."""

    def __init__(self, form: CsvFormat, schema: StreamSchema, timestamp: str | None) -> None:
        self._form = form
        self._stream = schema.stream
        self._columns = TextColumns(schema, timestamp)
        self._places = form.places or tuple(range(len(schema.attributes)))

    def read(self, body: bytes, now_ms: int) -> pa.RecordBatch:
        """Return the events of the lines of `body`; empty lines are skipped.

        Raises EventsRejectedError.
        """
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise _broken(f"is not UTF-8: {error.reason} at byte {error.start}") from error
        table, misfits = self._rows(text)
        columns = [table.column(place).combine_chunks() for place in self._places]
        if self._form.header:
            columns = [column[1:] for column in columns]
        return self._columns.batch(columns, now_ms, self._numbered(misfits))

    def _rows(self, text: str) -> tuple[pa.Table, list[InvalidEvent]]:
        """Return the fields of all lines, and the lines with the wrong number of fields.

        Empty fields are null; lines with the wrong number of fields have a row of nulls.
        """
        width = self._width(text)
        table, wrong = self._parsed(text, width)
        if not wrong:
            return table, []
        lenient = self._form.lenient
        short = [row for row in wrong if lenient and row.actual_columns < width]
        if sum(width - row.actual_columns for row in short) > MOST_PADDING:
            raise _too_short()
        padded = (row.text + self._form.delimiter * (width - row.actual_columns) for row in short)
        fixed, _ = self._parsed("\n".join(padded), width)
        # where each line's row is: in `table`, in `fixed` after it, or nowhere
        whole = table.num_rows
        found = np.full(whole + len(wrong), -1)
        found[[row.number - 1 for row in short]] = np.arange(whole, whole + len(short))
        lost = np.zeros(len(found), bool)
        lost[[row.number - 1 for row in wrong]] = True
        found[~lost] = np.arange(whole)
        misfits = [self._misfit(row, width) for row in wrong if found[row.number - 1] < 0]
        return pa.concat_tables([table, fixed]).take(pa.array(found, mask=found < 0)), misfits

    def _numbered(self, misfits: list[InvalidEvent]) -> list[InvalidEvent]:
        """Return the errors with event numbers instead of line numbers. A header has no errors."""
        if not self._form.header:
            return misfits
        return [InvalidEvent(one.index - 1, one.attribute, one.problem) for one in misfits if one.index]

    def _misfit(self, row: pyarrow.csv.InvalidRow, width: int) -> InvalidEvent:
        problem = f"has {row.actual_columns} values where {width} are expected"
        return InvalidEvent(row.number - 1, "", problem)

    def _width(self, text: str) -> int:
        """Return how many fields a line has: one for each attribute, or as many as the first line."""
        if not self._form.places:
            return len(self._places)
        first: list[str] = []
        try:
            rows = csv.reader(io.StringIO(text, newline=""), delimiter=self._form.delimiter)
            first = next(filter(None, rows), [])
        except csv.Error:
            pass  # the fields are too long for Python's reader, pyarrow decides below
        return min(max(len(first), max(self._places) + 1), MOST_COLUMNS)

    def _parsed(self, text: str, width: int) -> tuple[pa.Table, list[pyarrow.csv.InvalidRow]]:
        """Return the lines with `width` fields as a table of strings, and the others."""
        wrong: list[pyarrow.csv.InvalidRow] = []

        def note(row: pyarrow.csv.InvalidRow) -> str:
            wrong.append(row)
            return "skip" if len(wrong) <= (MOST_SHORT if self._form.lenient else MOST_DETAILS) else "error"

        names = [str(place) for place in range(width)]
        data = f"{text}\n{self._form.delimiter.join([_END] * width)}".encode()
        try:
            table = pyarrow.csv.read_csv(
                pa.BufferReader(data),
                # A single block, since lines must not span blocks, and a single thread, since only then lines are
                # numbered.
                pyarrow.csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
                pyarrow.csv.ParseOptions(
                    delimiter=self._form.delimiter, newlines_in_values=True, invalid_row_handler=note
                ),
                pyarrow.csv.ConvertOptions(
                    column_types={name: pa.string() for name in names},
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            if len(wrong) > MOST_SHORT:
                raise _too_short() from None
            if len(wrong) > MOST_DETAILS:  # more details do not help users
                details = [self._misfit(row, width) for row in wrong]
                raise events_rejected(self._stream, self._numbered(details), text.rstrip().count("\n") + 1) from None
            raise _broken(f"is not CSV: {error}") from error
        last = table.num_rows - 1
        if last < 0 or any(column[last].as_py() != _END for column in table.columns):
            raise _broken("is not CSV: a quote is not closed")
        return table.slice(0, last), wrong


def _broken(problem: str) -> EventsRejectedError:
    return EventsRejectedError("broken-csv", f"the body {problem}")


def _too_short() -> EventsRejectedError:
    return EventsRejectedError("bad-events", "too many values are missing in the lines; send fewer lines at once")
