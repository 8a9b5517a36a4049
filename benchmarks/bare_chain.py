"""What the transport alone costs: a chain of processes that pass Arrow batches on over ZeroMQ and do nothing else.

The hops are those of a deployed plan: client → worker → stage → worker → client, the worker's two in one process.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import zmq

from topology.events.frames import decode_batch, encode_batch

STOP = b""


class BareChain:
    """The client's ends of a running chain: `send` a body, `receive` it when it has made all hops."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], first_port: int, last_port: int) -> None:
        self._first = context.socket(zmq.PUSH)
        self._first.connect(f"tcp://127.0.0.1:{first_port}")
        self._last = context.socket(zmq.PULL)
        self._last.connect(f"tcp://127.0.0.1:{last_port}")

    def send(self, body: Any) -> None:
        self._first.send(body, copy=False)

    def receive(self) -> bytes:
        return self._last.recv()

    def close(self) -> None:
        self._first.send(STOP)
        self._first.close(linger=1000)
        self._last.close(linger=0)


@contextmanager
def bare_chain(schema: pa.Schema) -> Iterator[BareChain]:
    """Run a chain for batches of `schema`, in processes of its own."""
    processes = multiprocessing.get_context("spawn")
    ports: Any = processes.Queue()
    stage = processes.Process(target=_stage, args=(schema, ports))
    stage.start()
    stage_in, stage_out = ports.get()
    worker = processes.Process(target=_worker, args=(schema, ports, stage_in, stage_out))
    worker.start()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    chain = BareChain(context, *ports.get())
    try:
        yield chain
    finally:
        chain.close()
        worker.join()
        stage.join()
        context.destroy(linger=0)


def _stage(schema: pa.Schema, ports: Any) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    source, sink = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    ports.put((source.bind_to_random_port("tcp://127.0.0.1"), sink.bind_to_random_port("tcp://127.0.0.1")))
    while body := source.recv():
        sink.send(_through_arrow(body, schema), copy=False)
    context.destroy(linger=0)


def _worker(schema: pa.Schema, ports: Any, stage_in: int, stage_out: int) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    source, sink = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    to_stage, from_stage = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    to_stage.connect(f"tcp://127.0.0.1:{stage_in}")
    from_stage.connect(f"tcp://127.0.0.1:{stage_out}")
    ports.put((source.bind_to_random_port("tcp://127.0.0.1"), sink.bind_to_random_port("tcp://127.0.0.1")))
    poller = zmq.Poller()
    poller.register(source, zmq.POLLIN)
    poller.register(from_stage, zmq.POLLIN)
    while True:
        ready = dict(poller.poll())
        if source in ready:
            body = source.recv()
            if body == STOP:
                break
            to_stage.send(_through_arrow(body, schema), copy=False)
        if from_stage in ready:
            sink.send(_through_arrow(from_stage.recv(), schema), copy=False)
    to_stage.send(STOP)
    context.destroy(linger=1000)


def _through_arrow(body: bytes, schema: pa.Schema) -> pa.Buffer:
    """Decode and encode the batch, as every hop of a plan may have to."""
    rows = pa.ipc.read_record_batch(pa.py_buffer(body), schema).num_rows
    return encode_batch(decode_batch(body, schema, rows))
