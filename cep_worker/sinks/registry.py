"""The types of sinks that a plan or an artefact may name."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from cep_common.errors import ConfigError
from cep_worker.in_memory import InMemoryOptions
from cep_worker.options import option_names
from cep_worker.sinks.base import Sink, SinkContext
from cep_worker.sinks.email import EmailOptions, email_sink
from cep_worker.sinks.error_store import ErrorStoreOptions, error_store_sink
from cep_worker.sinks.file import FileOptions, file_sink
from cep_worker.sinks.http import HttpOptions, http_sink
from cep_worker.sinks.in_memory import in_memory_sink
from cep_worker.sinks.log import LogOptions, log_sink
from cep_worker.sinks.rdbms import RdbmsOptions, rdbms_sink
from cep_worker.sinks.zeromq import ZeromqOptions, zeromq_sink

SINK_TYPES: dict[str, tuple[type[msgspec.Struct], Callable[[SinkContext], Sink]]] = {
    "email": (EmailOptions, email_sink),
    "file": (FileOptions, file_sink),
    "http": (HttpOptions, http_sink),
    "inMemory": (InMemoryOptions, in_memory_sink),
    "log": (LogOptions, log_sink),
    "rdbms": (RdbmsOptions, rdbms_sink),
    "zeromq": (ZeromqOptions, zeromq_sink),
}
"""Each type's options and maker."""

OF_COMPILER: dict[str, tuple[type[msgspec.Struct], Callable[[SinkContext], Sink]]] = {
    "error-store": (ErrorStoreOptions, error_store_sink),
}
"""Those that the compiler adds to plans and that nobody writes."""

VARYING = {"email": frozenset({"subject", "to", "cc", "bcc"})}
"""Options in which attributes of the event may stand."""

_TEMPLATE = re.compile(r"\{\{\s*\w+\s*\}\}")


def make_sink(context: SinkContext) -> Sink:
    """The sink that `context.connector` declares, running. ConfigError for an unknown type or option."""
    entry = SINK_TYPES.get(context.connector.type) or OF_COMPILER.get(context.connector.type)
    if entry is None:
        raise ConfigError(f"{context.where()}: unknown type of sink; known: {', '.join(SINK_TYPES)}")
    if any(name.split(".")[0].casefold() == "distribution" for name in context.connector.options):
        advice = "write a @sink for each destination; each gets all events"
        raise ConfigError(f"{context.where()}: @distribution is not supported: {advice}")
    options, make = entry
    _refuse_templates(context, option_names(options))
    return make(context)


def _refuse_templates(context: SinkContext, known: tuple[str, ...]) -> None:
    """Raises ConfigError for an option with an attribute's value in it, as Siddhi's dynamic options have. It tells no
    more than that of the option: the rest may be secret."""
    for name in (one for one in known if one not in VARYING.get(context.connector.type, ())):
        found = _TEMPLATE.search(context.connector.options.get(name, ""))
        if found is not None and not name.endswith("password"):
            advice = "write a stream and a @sink for each"
            raise ConfigError(f"{context.where()}: {name}: {found[0]} cannot differ from event to event; {advice}")
