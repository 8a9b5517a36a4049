"""Everything that reads bytes from outside, each as a function that takes any bytes: what is not one of the errors that
users are told is a defect, and is raised."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import struct
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import zmq

from cep_common.codec import decode, encode
from cep_common.config import load_config
from cep_common.driver_messages import RegisterDriver, TopologyReport
from cep_common.errors import ConfigError, DecodeError, InputError
from cep_common.ids import Endpoint, PlanKey
from cep_common.link_messages import BeatLink, CloseLink, Data, MarkIdle, OpenLink, StreamSchema
from cep_common.message_types import message_types
from cep_common.messages import ListPlans, RegisterEndpoint, RegisterWorker, RequestEndpoint
from cep_common.task_messages import RegisterTask
from cep_manager.compiler import compile_plan
from cep_manager.config import ManagerConfig, QuotasConfig
from cep_manager.control_plane import ControlPlane
from cep_manager.plan_record import PlanToRun
from cep_worker.config import WorkerConfig
from cep_worker.mappers.csv_events import CsvFormat
from cep_worker.mappers.json_events import JsonEvents
from cep_worker.mappers.sources import SourceFormat
from cep_worker.mappers.text_events import TextFormat
from cep_worker.mappers.xml_events import XmlFormat
from query_plan.builder import build
from query_plan.xml import read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.analysis.model import AnalysedApp
from siddhi.engine.runtime import AppRuntime
from siddhi.engine.seal import sealed, unsealed
from siddhi.engine.snapshot import read_snapshot
from siddhi.errors import SiddhiError, SnapshotError
from siddhi.language.parser import parse, parse_on_demand_query
from siddhi.language.printer import print_app
from siddhi.scripts.language import ScriptPolicy
from topology.frames import arrow_schema, decode_batch, encode_batch
from topology.link_server import LinkServer
from topology.spark.config import DriverConfig

ROOT = Path(__file__).parents[1]
CASES = ROOT / "tests" / "conformance" / "cases.jsonl.xz"
KEY = PlanKey(-1234, "P")
SCHEMA = StreamSchema("In", (("s", "string"), ("i", "int"), ("d", "double"), ("b", "bool"), ("o", "object")))
NOW_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Target:
    """`run` takes any bytes; `seeds` are such as make sense."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


# ---- messages -------------------------------------------------------------------------------------------------------


def packed(frames: Iterable[bytes]) -> bytes:
    """Frames one behind the other, each with its length in front; `unpacked` takes them apart again."""
    return b"".join(struct.pack("<H", len(frame)) + frame for frame in frames)


def unpacked(data: bytes) -> Iterator[bytes]:
    """The frames of `data`, whatever it is."""
    place = 0
    while place + 2 <= len(data):
        (length,) = struct.unpack_from("<H", data, place)
        yield data[place + 2 : place + 2 + length]
        place += 2 + length


def run_registry(data: bytes) -> None:
    """Messages to a manager that has one plan, one after the other, each a frame."""
    plane = ControlPlane(1_000, 3_000, 1, 1, QuotasConfig())
    plane.put_plan(_plan(), NOW_MS)
    for number, frame in enumerate(unpacked(data)):
        now_ms = NOW_MS + 400 * number
        try:
            envelope = decode([frame])
        except DecodeError:
            continue
        peer = bytes([number % 3])
        answer, _ = plane.handle(peer, envelope.message, now_ms)
        decode(encode(answer, envelope.correlation))
        plane.tick(now_ms)
        msgspec.json.encode(plane.snapshot(now_ms).revision)


@cache
def _plan() -> PlanToRun:
    streams = "@Import('In:1.0.0') define stream In (a int); @Export('Out:1.0.0') define stream Out (a int);"
    text = f"@Plan:name('P') {streams} from In select a insert into Out;"
    compiled = compile_plan(text, ScriptPolicy())
    return PlanToRun(KEY, text, compiled, epoch=1, created_ms=NOW_MS, updated_ms=NOW_MS)


def registry_seeds() -> Iterator[bytes]:
    """A system that comes up, and each message alone."""
    where = Endpoint("10.0.0.1", 15_000)
    story = [
        RegisterDriver("d", "10.0.0.1", 7, "local[2]", 2, 2, (TopologyReport(KEY, 1, "running"),)),
        RegisterTask(KEY, 1, 0, "10.0.0.1", 9, memory_bytes=5, cpu_ms=3, hand_over="quiet", state_endpoint=where),
        RegisterEndpoint("receiver", KEY, 1, "EventReceiver#0", where, ("w/In",)),
        RegisterWorker("w", "10.0.0.2", 8, 1, ingress=where, egress=where),
        ListPlans(),
        RequestEndpoint("receiver", KEY, 1, "w", "10.0.0.2", "In"),
        RegisterEndpoint("worker", KEY, 1, "w", where),
        RequestEndpoint("worker", KEY, 1, "EventPublisher#0", "10.0.0.1"),
    ]
    frames = [encode(message, b"1")[0] for message in story]
    yield packed(frames)
    yield from (packed([frame]) for frame in frames)
    yield from (packed([b"CEP1" + bytes([len(name)]) + name.encode() + b"\0\x80"]) for name in message_types())


# ---- data frames ----------------------------------------------------------------------------------------------------


class Scripted:
    """Stands for a socket on which certain messages have come. Answers must be messages themselves."""

    def __init__(self, messages: Iterable[list[bytes]]) -> None:
        self._messages = deque(messages)

    def recv_multipart(self, _flags: int = 0) -> list[bytes]:
        if not self._messages:
            raise zmq.Again
        return self._messages.popleft()

    def send_multipart(self, frames: list[bytes]) -> None:
        decode(frames[1:])


def run_links(data: bytes) -> None:
    """Messages of one client at a worker's ingress: pairs of a header and a body, which may be empty."""
    frames = list(unpacked(data))
    messages = [
        [b"peer", header, *([body] if body else [])]
        for header, body in itertools.zip_longest(frames[::2], frames[1::2])
    ]
    socket: Any = Scripted(messages)
    server = LinkServer(socket, Endpoint("127.0.0.1", 1), 1_000, lambda _: None, trusted=False)
    for number in range(len(messages)):
        for event in server.receive(number * 100, limit=1):
            batch = getattr(event, "batch", None)
            if batch is not None:
                batch.to_pylist()
                server.done(event.link, event.sequence)
        server.flush(number * 100)


def links_seeds() -> Iterator[bytes]:
    """A link that is opened, used and closed; with batches of several sizes."""
    opening = encode(OpenLink("client", (SCHEMA,)))[0]
    for rows in (0, 1, 3, 100):
        body = encode_batch(_batch(rows)).to_pybytes()
        data = encode(Data("In", 1, rows, 5))[0]
        more = [encode(MarkIdle(2))[0], b"", encode(BeatLink())[0], b"", encode(CloseLink())[0], b""]
        yield packed([opening, b"", data, body, *more])


def run_batches(data: bytes) -> None:
    """The body of a data frame from outside."""
    try:
        batch = decode_batch(data, arrow_schema(SCHEMA), 3, trusted=False)
    except DecodeError:
        return
    batch.to_pylist()


def batches_seeds() -> Iterator[bytes]:
    """Bodies that fit, and one that does not."""
    yield encode_batch(_batch(3)).to_pybytes()
    yield encode_batch(_batch(3).slice(1)).to_pybytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, arrow_schema(SCHEMA), options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write(_batch(3))
    reader = pa.ipc.MessageReader.open_stream(sink.getvalue())
    reader.read_next_message()
    yield reader.read_next_message().serialize().to_pybytes()


def _batch(rows: int) -> pa.RecordBatch:
    values = [
        {"_timestamp": row, "_kind": 0, "s": f"é{row}", "i": row, "d": row / 2, "b": row % 2 == 0, "o": b"\0"}
        if row % 4 != 3
        else {"_timestamp": row, "_kind": 0}
        for row in range(rows)
    ]
    return pa.RecordBatch.from_pylist(values, schema=arrow_schema(SCHEMA))


# ---- texts ----------------------------------------------------------------------------------------------------------

_JSON_STREAM = StreamSchema(
    "In", tuple((f"a_{kind}", kind) for kind in ("string", "int", "long", "float", "double", "bool"))
)


def run_http(data: bytes) -> None:
    """The body of a request with events: as JSON, as lines of JSON, and as each further mapper of sources reads it."""
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
    """A query plan; one that is read can be written and is the same then."""
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
    """A configuration file of one of the processes, and the text as a value from the environment."""
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
    """The groups of the shipped files with every key in force, and what YAML must not do."""
    for path in sorted((ROOT / "conf").glob("*.yaml")):
        lines = [line.removeprefix("# ") for line in path.read_text(encoding="utf-8").splitlines()]
        text = "\n".join(line for line in lines if re.match(r"#? *[a-z_]+:( |$)|  - ", line)).replace("#", "")
        yield from (group.encode() for group in re.split(r"\n(?=[a-z])", text))
    yield b"a: &a [*a]\nhost: !!python/object/apply:os.system ['true']\n"


def run_language(data: bytes) -> None:
    """The text of an app or an on-demand query; an app that is read can be printed and is the same then."""
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
    """The apps of all conformance cases."""
    return (app.encode() for app in _apps())


def _apps() -> Iterator[str]:
    with lzma.open(CASES, "rt", encoding="utf-8") as cases:
        for line in cases:
            yield json.loads(line)["app"]


# ---- state ----------------------------------------------------------------------------------------------------------

_APP = """
define stream S (k string, v int);
@primaryKey('k') define table T (k string, v int);
define aggregation A from S select k, sum(v) as total group by k aggregate every sec...hour;
from S#window.length(5) select k, sum(v) as total group by k insert into Sums;
from S#window.unique:first(k) select k insert into Firsts;
from every e1=S[v > 3] -> e2=S[k == e1.k] select e1.k as k, e2.v as v insert into Pairs;
partition with (k of S) begin from S#window.lengthBatch(3) select max(v) as most insert into Most; end;
from S select k, v update or insert into T on T.k == k;
"""


def run_snapshot(data: bytes) -> None:
    """What somebody gives for a snapshot of the app, such as a damaged one. What is taken must run on."""
    runtime = _waiting()
    try:
        runtime.restore(data)
    except SnapshotError:
        return
    _feed(runtime, NOW_MS + 10_000)
    _waiting.cache_clear()


def run_state(data: bytes) -> None:
    """The body of a snapshot, under a seal that fits: damage that no checksum shows. Nobody asks here whether it makes
    sense: an app believes whoever can write a fitting seal."""
    with suppress(SnapshotError):
        read_snapshot(sealed([data], b"\0" * 16))


@cache
def _waiting() -> AppRuntime:
    """The app, before anything has been restored; refusals leave it as it is."""
    runtime = AppRuntime(_app())
    runtime.start(NOW_MS)
    return runtime


@cache
def _app() -> AnalysedApp:
    return analyse(parse(_APP))


@cache
def _snapshots() -> tuple[bytes, bytes]:
    """Snapshots of the app, when it has worked and when it has done nothing."""
    working, idle = AppRuntime(_app()), AppRuntime(_app())
    working.start(NOW_MS)
    idle.start(NOW_MS)
    _feed(working, NOW_MS)
    return working.snapshot(), idle.snapshot()


def _feed(runtime: AppRuntime, since_ms: int) -> None:
    for start in range(2):
        columns = {
            "_timestamp": np.arange(5, dtype=np.int64) * 300 + since_ms + start * 2_000,
            "k": pa.array(["a", "b", "a", None, "c"]),
            "v": pa.array([1, 5, 4, 9, start], pa.int32()),
        }
        runtime.send("S", pa.record_batch(columns), since_ms + 5_000)


def snapshot_seeds() -> Iterator[bytes]:
    """Whole snapshots."""
    return iter(_snapshots())


def state_seeds() -> Iterator[bytes]:
    """Their bodies."""
    return (bytes(unsealed(snapshot)[1]) for snapshot in _snapshots())


TARGETS = {
    "registry": Target(run_registry, registry_seeds),
    "links": Target(run_links, links_seeds),
    "batches": Target(run_batches, batches_seeds),
    "http": Target(run_http, http_seeds),
    "xml": Target(run_xml, xml_seeds),
    "yaml": Target(run_yaml, yaml_seeds),
    "language": Target(run_language, language_seeds),
    "snapshot": Target(run_snapshot, snapshot_seeds),
    "state": Target(run_state, state_seeds),
}
