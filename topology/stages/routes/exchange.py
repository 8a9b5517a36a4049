"""Exchange of bundles between the tasks of one topology: every task opens a link to every other one.

These links have no window of their own: data in flight here is a part of the workers' unacknowledged data, which is
bounded. With a window, or settlement in order, a stream that is ahead could block the stream that a merger waits for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import zmq

from cep_common.errors import DecodeError
from cep_common.ids import Endpoint
from cep_common.protocol.links import OpenLink, SendBundle
from cep_common.protocol.registry import Rejected
from cep_common.security.roles import SocketKind
from topology.acks import Ack
from topology.errors import TopologyError
from topology.events.bundle import Bundle
from topology.events.frames import CLOCK_FIELD, arrow_schema, decode_batch, encode_batch, has_clocks
from topology.links.sender import LinkSender
from topology.links.server import FrameArrived, IncomingLink, LinkArrived, LinkGone, LinkServer
from topology.model import Topology

UNBOUNDED_ROWS = 2**62

TASK_LOST = "task-lost"
"""The reason code of an error that reports the loss of another task."""

Deliver = Callable[[str, Bundle], None]
"""Delivers a bundle to a local instance."""


@dataclass(slots=True)
class _PeerLink:
    """The link to another task, bundles that wait for it to open, and unsettled bundles by number."""

    link: LinkSender
    waiting: deque[tuple[str, Bundle]] = field(default_factory=deque)
    under_way: dict[int, Bundle] = field(default_factory=dict)


class TaskExchange:
    """The exchange of one task. Call `connect` when the addresses of all tasks are known."""

    def __init__(
        self,
        topology: Topology,
        task: int,
        context: zmq.Context[zmq.Socket[bytes]],
        host: str,
        ports: tuple[int, int],
        deliver: Deliver,
    ) -> None:
        self._topology = topology
        self._task = task
        self._context = context
        self._deliver = deliver
        self._schemas = {name: arrow_schema(stream) for name, stream in topology.streams.items()}
        self._clocked = {name: schema.append(CLOCK_FIELD) for name, schema in self._schemas.items()}
        self._peers: dict[int, _PeerLink] = {}
        self._settled: dict[IncomingLink, list[int]] = {}
        self.server: LinkServer | None = None
        """Address that the other tasks send to; without other tasks there is none, which saves a port."""
        if topology.tasks > 1:
            self.server = LinkServer.listen(context, SocketKind.EXCHANGE, host, ports, UNBOUNDED_ROWS, self._accept)

    def connect(self, addresses: Sequence[Endpoint], monotonic_ms: int) -> None:
        """Open a link to every other task; `addresses` are in order of task."""
        topology = self._topology
        opening = OpenLink(f"task {self._task}", (), topology.key, topology.epoch, attempt=topology.attempt)
        for task, endpoint in enumerate(addresses):
            if task != self._task:
                self._peers[task] = _PeerLink(
                    LinkSender(self._context, SocketKind.EXCHANGE, endpoint, opening, monotonic_ms)
                )

    def senders(self) -> Iterator[LinkSender]:
        """Yield the links to other tasks."""
        return (peer.link for peer in self._peers.values())

    def send(self, task: int, target: str, bundle: Bundle) -> None:
        """Send `bundle` to instance `target` in `task`, and settle it when the instance has settled it there."""
        peer = self._peers[task]
        bundle.hold()
        peer.waiting.append((target, bundle))
        self._pump(peer)

    def is_drained(self) -> bool:
        """Return whether all sent bundles are settled."""
        return not any(peer.waiting or peer.under_way for peer in self._peers.values())

    def on_senders_readable(self) -> None:
        """Process settled bundles, and send what waits. Raise TopologyError when another task was lost."""
        for task, peer in self._peers.items():
            peer.link.handle()
            for sequence in peer.link.settled:
                peer.under_way.pop(sequence).settle()
            peer.link.settled.clear()
            if peer.link.state.has_failed:
                raise TopologyError(TASK_LOST, f"the link from task {self._task} to task {task} broke")
            self._pump(peer)

    def on_readable(self, monotonic_ms: int) -> None:
        """Deliver bundles of other tasks."""
        if self.server is None:
            return
        for event in self.server.receive(monotonic_ms):
            match event:
                case FrameArrived(link=link, message=SendBundle() as message, bodies=bodies):
                    self._receive(link, message, bodies)
                    self.server.done(link, message.sequence)
                case LinkArrived() | FrameArrived() | LinkGone():
                    pass  # the driver ends the topology of a task that ends

    def flush(self) -> None:
        """Send acknowledgements and settlements to the other tasks."""
        if self.server is None:
            return
        self.server.flush()
        for link, sequences in self._settled.items():
            self.server.settle(link, sequences)
        self._settled.clear()

    def tick(self, monotonic_ms: int) -> None:
        for peer in self._peers.values():
            peer.link.tick(monotonic_ms)

    def keep_alive(self, monotonic_ms: int) -> None:
        """Send heartbeats while the task is busy."""
        for peer in self._peers.values():
            peer.link.keep_alive(monotonic_ms)

    def close(self) -> None:
        for peer in self._peers.values():
            peer.link.close()
        if self.server is not None:
            self.server.close()

    def _accept(self, opening: OpenLink) -> Rejected | None:
        topology = self._topology
        if (opening.key, opening.epoch, opening.attempt) != (topology.key, topology.epoch, topology.attempt):
            return Rejected("stale-epoch", f"this is {topology.run()}")
        return None

    def _pump(self, peer: _PeerLink) -> None:
        while peer.waiting and peer.link.has_room():
            target, bundle = peer.waiting.popleft()
            sequence = peer.link.outbox.next_sequence
            message = SendBundle(
                sequence=sequence,
                source=bundle.source,
                target=target,
                origin=bundle.origin,
                ticket=bundle.ticket,
                channel=bundle.channel,
                streams=bundle.streams,
                watermark_ms=bundle.watermark_ms,
                idle=bundle.idle,
                full=bundle.full,
                batches=tuple((stream, batch.num_rows) for stream, batch in bundle.batches),
                checkpoint=bundle.checkpoint,
                clock_ms=bundle.clock_ms,
                clocks=bool(bundle.batches) and has_clocks(bundle.batches[0][1]),
                position=bundle.position,
            )
            bodies = tuple(encode_batch(batch) for _, batch in bundle.batches)
            peer.link.send_frame(message, sequence, bundle.rows(), bodies)
            peer.under_way[sequence] = bundle

    def _receive(self, link: IncomingLink, message: SendBundle, bodies: tuple[object, ...]) -> None:
        if len(bodies) != len(message.batches):
            raise DecodeError(f"a bundle of {len(message.batches)} batches with {len(bodies)} bodies")
        schemas = self._clocked if message.clocks else self._schemas
        receipt = Ack(lambda: self._settled.setdefault(link, []).append(message.sequence))
        bundle = Bundle(
            source=message.source,
            origin=message.origin,
            ticket=message.ticket,
            channel=message.channel,
            streams=message.streams,
            watermark_ms=message.watermark_ms,
            idle=message.idle,
            full=message.full,
            batches=tuple(
                (stream, decode_batch(body, schemas[stream], rows))
                for (stream, rows), body in zip(message.batches, bodies, strict=True)
            ),
            receipt=receipt,
            checkpoint=message.checkpoint,
            clock_ms=message.clock_ms,
            position=message.position,
        )
        self._deliver(message.target, bundle)
