"""What comes by sockets: messages to a manager, links to a worker, and the batches in them."""

from __future__ import annotations

import itertools
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa
import zmq

from cep_common.errors import DecodeError
from cep_common.ids import Endpoint, PlanKey
from cep_common.protocol.codec import decode, encode
from cep_common.protocol.drivers import RegisterDriver, TopologyReport
from cep_common.protocol.links import BeatLink, CloseLink, Data, MarkIdle, OpenLink, StreamSchema
from cep_common.protocol.message_types import message_types
from cep_common.protocol.registry import ListPlans, RegisterEndpoint, RegisterWorker, RequestEndpoint
from cep_common.protocol.tasks import RegisterTask
from cep_manager.authoring.compiler import compile_plan
from cep_manager.config import QuotasConfig
from cep_manager.control.control_plane import ControlPlane
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.stored_plan import StoredPlan
from siddhi.scripts.language import ScriptPolicy
from topology.events.frames import arrow_schema, decode_batch, encode_batch
from topology.links.server import LinkServer

KEY = PlanKey(-1234, "P")
SCHEMA = StreamSchema("In", (("s", "string"), ("i", "int"), ("d", "double"), ("b", "bool"), ("o", "object")))
NOW_MS = 1_000_000


def packed(frames: Iterable[bytes]) -> bytes:
    """Frames one behind the other, each with its length in front; `unpacked` takes them apart again."""
    return b"".join(struct.pack("<H", len(frame)) + frame for frame in frames)


def unpacked(data: bytes) -> Iterator[bytes]:
    """Yield the frames of `data`, whatever it is."""
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
    return PlanToRun(StoredPlan(KEY, text, epoch=1, created_ms=NOW_MS, updated_ms=NOW_MS), compiled)


def registry_seeds() -> Iterator[bytes]:
    """Yield the messages of a system that starts, and each message alone."""
    where = Endpoint("10.0.0.1", 15_000)
    story = [
        RegisterDriver("d", "10.0.0.1", 7, "local[2]", 2, 2, (TopologyReport(KEY, 1, "running"),)),
        RegisterTask(KEY, 1, 0, "10.0.0.1", 9, memory_bytes=5, cpu_ms=3, state_transfer="quiet", state_endpoint=where),
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


@dataclass(frozen=True)
class MessagePart:
    """A frame of a message; `more`: another one follows."""

    buffer: bytes
    more: bool


class Scripted:
    """A fake socket on which certain messages have arrived. Answers must be messages themselves."""

    def __init__(self, messages: Iterable[list[bytes]]) -> None:
        self._messages = deque(messages)
        self._parts: deque[bytes] = deque()

    def getsockopt(self, _option: int) -> int:
        return -1

    def recv(self, _flags: int = 0, *, copy: bool = True) -> MessagePart:
        if not self._parts:
            if not self._messages:
                raise zmq.Again
            self._parts.extend(self._messages.popleft())
        return MessagePart(self._parts.popleft(), more=bool(self._parts))

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
    """Yield a link that is opened, used and closed; with batches of several sizes."""
    opening = encode(OpenLink("client", (SCHEMA,)))[0]
    for rows in (0, 1, 3, 100):
        body = encode_batch(_batch(rows)).to_pybytes()
        data = encode(Data("In", 1, rows, 5))[0]
        more = [encode(MarkIdle(2))[0], b"", encode(BeatLink())[0], b"", encode(CloseLink())[0], b""]
        yield packed([opening, b"", data, body, *more])


def run_batches(data: bytes) -> None:
    """Decode the body of a data frame from outside."""
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
