"""Source `http`: accepts events that are posted to a path, at the built-in server or another address."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlsplit

from cep_common.errors import CepError, ConfigError, InputError
from cep_worker.formats.schemas.settings import mapper_guard
from cep_worker.formats.source_mappers.registry import source_format
from cep_worker.formats.transport_properties import split_attributes
from cep_worker.http.event_posts import HttpSource
from cep_worker.http.servers import Address, HttpServers
from cep_worker.plans.connectors import DeclaredConnector
from cep_worker.sources.base import SourceContext, UncountedSource
from query_plan.connectors.http_paths import default_path, refuse_path
from query_plan.connectors.options import read_options
from query_plan.connectors.sources import HttpSourceOptions
from siddhi.column_names import TIMESTAMP

_HERE = {"localhost": "127.0.0.1"}
"""Names of addresses that mean the same server."""


class HttpPathSource(UncountedSource):
    """A path of one of the worker's HTTP servers."""

    error = ""

    def __init__(self, http_servers: HttpServers, address: Address, path: str, source: HttpSource) -> None:
        self._http_servers = http_servers
        self._address = address
        self._path = path
        self._source = source
        http_servers.add(address, path, source)

    def retry(self, now_ms: int) -> None:
        """Do nothing: requests wait in the submission queue."""

    def reroute(self, declared: DeclaredConnector, now_ms: int) -> None:
        self._source = replace(self._source, stream=declared.stream)
        self._http_servers.replace(self._address, self._path, self._source)

    def tick(self, now_ms: int) -> None:
        """Do nothing."""

    def close(self) -> None:
        self._http_servers.remove(self._address, self._path)


def http_source(context: SourceContext) -> HttpPathSource:
    """Return a source that listens for requests.

    Raises:
        ConfigError: options that cannot be used.
    """
    declared = context.declared
    connector = declared.connector
    options = read_options(HttpSourceOptions, connector.options, context.where())
    where = f"@map of {context.where()}"
    split = split_attributes(connector, declared.stream.schema, where)
    if beside := {options.timestamp, TIMESTAMP} & dict(split.properties).keys():
        raise ConfigError(f"{where}: @attributes: {beside.pop()}: the event's time comes from the body")
    form = source_format(split.connector, split.body, where, mapper_guard(context.guard, declared.given))
    address, path = _receiver(options.receiver_url, context)
    by_plan = bool(options.receiver_url) and context.guard is not None and "receiver.url" not in declared.given
    if by_plan and (reason := refuse_path(path, declared.tenant())):
        raise ConfigError(f"{context.where()}: receiver.url: {reason}")
    own = address == (context.http.host, context.http.port)
    if not own and context.guard is not None and "receiver.url" not in declared.given:
        scheme = urlsplit(options.receiver_url).scheme
        if reason := context.guard.refuse_listening(scheme, *address):
            raise ConfigError(f"{context.where()}: receiver.url: {reason}")
    source = HttpSource(
        source=("http-source", *address, path),
        stream=declared.stream,
        timestamp_key=options.timestamp or None,
        form=form,
        properties=split.properties,
    )
    try:
        form.reader(split.body, source.timestamp_key)
        return HttpPathSource(context.http_servers, address, path, source)
    except InputError as error:
        raise ConfigError(f"{context.where()}: timestamp: {error.message}") from error
    except CepError as error:
        raise ConfigError(f"{context.where()}: receiver.url: {error.message}") from error


def _receiver(url: str, context: SourceContext) -> tuple[Address, str]:
    """Return the address and path to listen at."""
    built_in = (context.http.host, context.http.port)
    if not url:
        return built_in, _default_path(context.declared)
    parts = urlsplit(url)
    address = (_HERE.get(parts.hostname or "", parts.hostname or ""), parts.port or 0)
    same = address == (_HERE.get(built_in[0], built_in[0]), built_in[1])
    return built_in if same else address, parts.path


def _default_path(declared: DeclaredConnector) -> str:
    return default_path(declared.plan(), declared.stream.members[0].binding.stream)
