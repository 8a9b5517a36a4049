"""What people and their programs write: events, query plans, configuration, SiddhiQL."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import msgspec
import pyarrow as pa

from cep_common.configuration.loading import load_config
from cep_common.errors import ConfigError, InputError
from cep_common.protocol.links import StreamSchema
from cep_manager.config import ManagerConfig
from cep_worker.config import WorkerConfig
from cep_worker.formats.source_mappers.csv_mapper import CsvFormat
from cep_worker.formats.source_mappers.json_mapper import JsonEvents
from cep_worker.formats.source_mappers.registry import SourceFormat
from cep_worker.formats.source_mappers.text_mapper import TextFormat
from cep_worker.formats.source_mappers.xml_mapper import XmlFormat
from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.language.printer import print_app
from topology.spark.driver_side.config import DriverConfig

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "conformance" / "cases.jsonl.xz"
NOW_MS = 1_000_000

_JSON_STREAM = StreamSchema(
    "In", tuple((f"a_{kind}", kind) for kind in ("string", "int", "long", "float", "double", "bool"))
)


def run_http(data: bytes) -> None:
    """Read the body of a request with events: as JSON, as lines of JSON, and by each further source mapper."""
    readers = [_reader(None, lenient=False), _reader("a_long", lenient=True)]
    for read in [read for reader in readers for read in (reader.read, reader.read_lines)] + _mapped():
        try:
            read(data, NOW_MS).validate(full=True)
        except InputError as error:
            msgspec.json.encode(error.message)


@cache
def _reader(timestamp_key: str | None, lenient: bool) -> JsonEvents:
    return JsonEvents(_JSON_STREAM, timestamp_key, lenient)


@cache
def _mapped() -> list[Callable[[bytes, int], pa.RecordBatch]]:
    paths = tuple(f"{name}|@{name}" for name, _ in _JSON_STREAM.attributes)
    forms: list[SourceFormat] = [
        CsvFormat(),
        CsvFormat(";", header=True, lenient=True, places=(5, 4, 3, 2, 1, 0)),
        XmlFormat(lenient=True),
        XmlFormat(paths, "//event", as_event=True),
        TextFormat(),
        TextFormat(
            "~~", lenient=True, patterns=("(?P<g0>(?P<g1>[a-z]+) (?P<g2>[-0-9.]+))",), groups=((0, 1), *[(0, 2)] * 5)
        ),
    ]
    return [form.reader(_JSON_STREAM, None).read for form in forms]


def http_seeds() -> Iterator[bytes]:
    """Events in every form."""
    event = {"a_string": "é", "a_int": 1, "a_long": 2**40, "a_float": 1.5, "a_double": -1e300, "a_bool": True}
    stamped = {**event, "_timestamp": 5, "a_string": None}
    for body in (event, stamped, [event, stamped], {"event": event}, [{"event": event}]):
        yield json.dumps(body).encode()
    yield b"\n".join(json.dumps(one).encode() for one in (event, stamped, {"event": event}))
    yield 'é,1,2,1.5,-1e300,true\r\n"a""\n",,,,,\n'.encode()
    yield b"head\nx;1;1.5;2;1;true\n7\n"
    tags = "".join(f"<{name}>{value}</{name}>" for name, value in event.items())
    yield f"<events><event>{tags}</event><event a_int='1'/></events>".encode()
    yield b",\n".join(f"{name}:{value!r}".encode() for name, value in event.items())
    yield b"abc 17\n~~\nx -1.5\n"


def run_xml(data: bytes) -> None:
    """Read a query plan; one that is valid can be written and is the same then."""
    try:
        plan = read_xml(data.decode("utf-8", "replace"))
    except SiddhiError:
        return
    try:
        text = write_xml(plan)
    except SiddhiError:
        return
    if read_xml(text) != plan:
        raise AssertionError("the plan that was written is another one")


def xml_seeds() -> Iterator[bytes]:
    """Query plans of apps of the conformance suite, and what XML must not do."""
    for app in itertools.islice(_apps(), 0, None, 40):
        try:
            yield write_xml(build(analyse(parse("@Plan:name('P') " + app)))).encode()
        except SiddhiError:
            continue
    yield b'<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/hostname">]><query-plan name="&e;"/>'


def run_yaml(data: bytes) -> None:
    """Read a configuration file of one of the processes, and the text as a value from the environment."""
    process, kind = _PROCESSES[len(data) % len(_PROCESSES)]
    path = _scratch()
    path.write_bytes(data)
    text = data.decode("utf-8", "replace").replace("\0", "")[:100]
    variable = f"CEP_{process.upper()}__{text[:40]}"
    for where, environment in ((path, {}), (None, {variable: text, f"CEP_{process.upper()}__HOST": text})):
        try:
            load_config(kind, where, process, environment)
        except ConfigError as error:
            str(error)


_PROCESSES: tuple[tuple[str, type[msgspec.Struct]], ...] = (
    ("manager", ManagerConfig),
    ("worker", WorkerConfig),
    ("driver", DriverConfig),
)


@cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="cep-fuzz-")) / "config.yaml"


def yaml_seeds() -> Iterator[bytes]:
    """Yield the groups of the shipped files with every key set, and what YAML must not do."""
    for path in sorted((ROOT / "conf").glob("*.yaml")):
        lines = [line.removeprefix("# ") for line in path.read_text(encoding="utf-8").splitlines()]
        text = "\n".join(line for line in lines if re.match(r"#? *[a-z_]+:( |$)|  - ", line)).replace("#", "")
        yield from (group.encode() for group in re.split(r"\n(?=[a-z])", text))
    yield b"a: &a [*a]\nhost: !!python/object/apply:os.system ['true']\n"


def run_language(data: bytes) -> None:
    """Parse an app or an on-demand query; a valid app can be printed and is the same then."""
    text = data.decode("utf-8", "replace")
    try:
        parse_on_demand_query(text)
    except SiddhiError as error:
        error.render(text)
    try:
        app = parse(text)
        if parse(print_app(app)) != app:
            raise AssertionError("the printed app is another one")
        analyse(app)
    except SiddhiError as error:
        error.render(text)


def language_seeds() -> Iterator[bytes]:
    """Yield the apps of all conformance cases."""
    return (app.encode() for app in _apps())


def _apps() -> Iterator[str]:
    with lzma.open(CASES, "rt", encoding="utf-8") as cases:
        for line in cases:
            yield json.loads(line)["app"]
