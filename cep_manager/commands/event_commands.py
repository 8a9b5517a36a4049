"""Commands on event streams: send events, watch a stream, and show the flow of events."""

from __future__ import annotations

from cep_common.clock import Clock
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.config import ManagerConfig
from cep_manager.errors import NoWorkerError
from cep_manager.events.model import EventStreamView, SentEvents, TailFilter
from cep_manager.events.sending import own_authorization, send_events
from cep_manager.events.streams import event_streams, find_stream, workers_of
from cep_manager.events.tails import StreamTail, Tails, listen_with
from cep_manager.graph.event_flow import EventFlow, event_flow


class EventCommands:
    """Commands on event streams."""

    def __init__(self, changes: PlanChanges, config: ManagerConfig, clock: Clock) -> None:
        self._changes = changes
        self._config = config
        self._tails = Tails(config.tail, clock, listen_with(config.security))

    def event_flow(self, tenant: int) -> EventFlow:
        """See `ManagerView.event_flow`."""
        return event_flow(self._changes.snapshot(), tenant)

    def event_streams(self, tenant: int) -> tuple[EventStreamView, ...]:
        """See `ManagerView.event_streams`."""
        return event_streams(self._changes.snapshot(), tenant)

    def open_tail(self, tenant: int, name: str, wanted: TailFilter | None) -> StreamTail:
        """See `ManagerView.open_tail`."""
        snapshot = self._changes.snapshot()
        stream = find_stream(snapshot, tenant, "exported", name)
        endpoints = tuple(one.egress for one in workers_of(snapshot, tenant, stream) if one.egress is not None)
        if not endpoints:
            raise NoWorkerError(
                f"no worker that serves {name} accepts listeners; see egress in the workers' configuration"
            )
        return self._tails.open(endpoints, name, tenant, wanted)

    def send_events(self, tenant: int, name: str, body: bytes, kind: str, authorization: str) -> SentEvents:
        """See `ManagerView.send_events`."""
        snapshot = self._changes.snapshot()
        stream = find_stream(snapshot, tenant, "imported", name)
        shown = authorization or own_authorization(self._config.accounts.worker_token)
        return send_events(workers_of(snapshot, tenant, stream), name, tenant, body, kind, shown)
