"""Create the source that `@source(type='file')` declares."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cep_common.errors import ConfigError, InputError
from cep_worker.formats.source_mappers.csv_mapper import CsvFormat
from cep_worker.formats.source_mappers.registry import LineReader, source_format
from cep_worker.sources.base import SourceContext
from cep_worker.sources.file import FileSource, LineEvents
from cep_worker.sources.file_folder import FilesSource
from cep_worker.sources.file_lines import LineSplitter
from cep_worker.sources.file_regex import RegexSplitter
from cep_worker.sources.read_position import ReadPosition
from query_plan.connectors.options import path_of, read_options
from query_plan.connectors.sources import WHOLE_FILES, FileSourceOptions


def file_source(context: SourceContext) -> FileSource:
    """Return a source that reads a file, or those of a folder.

    Raises:
        ConfigError: options that cannot be used.
    """
    declared, where = context.declared, context.where()
    options = read_options(FileSourceOptions, declared.connector.options, where)
    form = source_format(declared.connector, declared.stream.schema, f"@map of {where}")
    header = options.header_line_count if options.header_present == "true" else 0
    whole = options.mode in WHOLE_FILES
    if isinstance(form, CsvFormat) and not whole:
        form, header = replace(form, header=False), header or int(form.header)
    try:
        reader = form.reader(declared.stream.schema, options.timestamp or None)
    except InputError as error:
        raise ConfigError(f"{where}: timestamp: {error.message}") from error
    by_expression = options.mode == "REGEX" and (options.begin_regex or options.end_regex)
    cutter = RegexSplitter(options.begin_regex, options.end_regex) if by_expression else LineSplitter()
    at_once = not by_expression and (isinstance(form, CsvFormat) or isinstance(reader, LineReader))
    events = LineEvents(reader, header, at_once, cutter)
    names = (str(declared.tenant()), declared.key.identity if declared.key else "", declared.stream.lasting_name())

    def position(path: Path) -> ReadPosition:
        return ReadPosition(Path(context.files.positions), *names, str(path.absolute()))

    one_by_one = bool(options.dir_uri) or whole or options.action_after_process in ("delete", "move")
    path = path_of(options.file_uri or options.dir_uri)
    if one_by_one:
        return FilesSource(context, options, events, position(path / "*"), position)
    return FileSource(context, options, events, position(path))
