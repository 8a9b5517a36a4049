"""The event streams of a tenant and the workers that serve them. Pure: derived from a snapshot."""

from __future__ import annotations

from collections.abc import Iterator

from cep_common.ids import PlanKey
from cep_common.protocol.registry import RegisterWorker, StreamBinding
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.errors import NoWorkerError, UnknownStreamError
from cep_manager.events.model import EventStreamView, Side, StreamMember
from cep_manager.monitoring.status import worker_reports

_Bound = tuple[PlanKey, StreamBinding]


def event_streams(snapshot: ClusterSnapshot, tenant: int) -> tuple[EventStreamView, ...]:
    """Return every event stream once, imported ones first, in order of name."""
    return (*_streams("imported", snapshot, tenant), *_streams("exported", snapshot, tenant))


def find_stream(snapshot: ClusterSnapshot, tenant: int, side: Side, name: str) -> EventStreamView:
    """Return the event stream of that name. Raises UnknownStreamError."""
    found = [one for one in _streams(side, snapshot, tenant) if one.name == name]
    if not found:
        plan, slash, stream = name.rpartition("/")
        present = snapshot.present_name(tenant, plan) if slash else ""
        hint = f": {plan} was renamed, the stream is {present}/{stream} now" if present else ""
        raise UnknownStreamError(f"tenant {tenant} has no {side} event stream {name}{hint}")
    return found[0]


def workers_of(snapshot: ClusterSnapshot, tenant: int, stream: EventStreamView) -> tuple[RegisterWorker, ...]:
    """Return the live workers that serve a plan of `stream`, each once. Raises NoWorkerError when there is none."""
    found: dict[str, RegisterWorker] = {}
    for member in stream.members:
        key = snapshot.key_named(tenant, member.plan)
        if key is not None:
            record = snapshot.plans[key]
            found |= {worker.latest.worker: worker.latest for worker, _ in worker_reports(snapshot, key, record.epoch)}
    if not found:
        raise NoWorkerError(f"no worker serves {stream.name} now; its plans may not run yet, or no worker is alive")
    return tuple(found[name] for name in sorted(found))


def _streams(side: Side, snapshot: ClusterSnapshot, tenant: int) -> Iterator[EventStreamView]:
    bound = sorted(_bound(side, snapshot, tenant), key=lambda one: (one[1].event_stream, one[0].plan, one[1].stream))
    for name in sorted({binding.event_stream for _, binding in bound}):
        mine = [(key, binding) for key, binding in bound if binding.event_stream == name]
        if len({frozenset(binding.attributes) for _, binding in mine}) == 1:
            yield _view(name, side, mine)
        else:
            for key, binding in mine:
                yield _view(f"{key.plan}/{binding.stream}", side, [(key, binding)])


def _bound(side: Side, snapshot: ClusterSnapshot, tenant: int) -> Iterator[_Bound]:
    for key, record in snapshot.plans.items():
        if key.tenant == tenant and record.compiled is not None:
            bindings = record.compiled.imported if side == "imported" else record.compiled.exported
            yield from ((key, binding) for binding in bindings)


def _view(name: str, side: Side, mine: list[_Bound]) -> EventStreamView:
    members = tuple(StreamMember(key.plan, binding.stream) for key, binding in mine)
    return EventStreamView(name, side, mine[0][1].attributes, members)
