"""Source `zeromq`: accepts Arrow batches over links, at its own port."""

from __future__ import annotations

from cep_common.errors import ConfigError
from cep_common.ids import parse_endpoint
from cep_worker.ingest.link_ingress import LinkIngress
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.plans.streams import EventStream, StreamDirectory
from cep_worker.sources.base import SourceContext, UncountedSource
from query_plan.connectors.options import read_options
from query_plan.connectors.sources import ZeromqSourceOptions


class ZeromqSource(UncountedSource):
    """A link server for one stream."""

    error = ""

    def __init__(self, context: SourceContext, options: ZeromqSourceOptions) -> None:
        endpoint = parse_endpoint(options.endpoint.removeprefix("tcp://"))
        self._tenant = context.declared.tenant()
        self._streams = StreamDirectory(context.declared.stream.members)
        self._ingress = LinkIngress(
            context.event_loop, context.disk_sync, self._resolve, context.make_route, context.ingress.links
        )
        self._ingress.listen(context.zmq_context, endpoint.host, endpoint.port, options.window_rows)

    def retry(self, now_ms: int) -> None:
        self._ingress.retry(now_ms)

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        self._streams = StreamDirectory(declared.stream.members)
        self._ingress.reroute(now_ms)

    def tick(self, now_ms: int) -> None:
        self._ingress.tick(now_ms)

    def close(self) -> None:
        self._ingress.close()

    def _resolve(self, name: str, _tenant: int) -> EventStream:
        return self._streams.resolve(name, self._tenant)


def zeromq_source(context: SourceContext) -> ZeromqSource:
    """Return a source that takes links.

    Raises:
        ConfigError: options that cannot be used, PortInUseError for a taken port.
    """
    connector = context.declared.connector
    options = read_options(ZeromqSourceOptions, connector.options, context.where())
    if connector.mapper not in ("", "passThrough") or connector.mapper_options:
        raise ConfigError(f"{context.where()}: events are sent as Arrow batches; remove @map")
    try:
        return ZeromqSource(context, options)
    except ValueError as error:
        raise ConfigError(f"{context.where()}: endpoint: {error}") from error
