"""The types of sinks that a plan or an artefact may name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cep_worker.kafka.sink import kafka_sink
from cep_worker.sinks.base import EventSink, SinkContext
from cep_worker.sinks.distribution import RoundRobinSink
from cep_worker.sinks.email import email_sink
from cep_worker.sinks.failed_events import failed_event_sink
from cep_worker.sinks.file import file_sink
from cep_worker.sinks.http import http_sink
from cep_worker.sinks.in_memory import in_memory_sink
from cep_worker.sinks.log import log_sink
from cep_worker.sinks.rdbms import rdbms_sink
from cep_worker.sinks.zeromq import zeromq_sink
from query_plan.connectors.distribution import destinations_of, is_distributed, share_of
from query_plan.connectors.judging import refuse_faults
from query_plan.connectors.reach import refuse_reach

SINK_TYPES: dict[str, Callable[[SinkContext], EventSink]] = {
    "email": email_sink,
    "file": file_sink,
    "http": http_sink,
    "inMemory": in_memory_sink,
    "kafka": kafka_sink,
    "log": log_sink,
    "rdbms": rdbms_sink,
    "zeromq": zeromq_sink,
}
"""The factory of each type."""

OF_COMPILER: dict[str, Callable[[SinkContext], EventSink]] = {"error-store": failed_event_sink}
"""Types that only the compiler adds to plans."""


def make_sink(context: SinkContext) -> EventSink:
    """Create and start the sink that `context.connector` declares.

    Raises:
        ConfigError: the sink cannot run with this configuration.
    """
    connector = context.connector
    if connector.type in OF_COMPILER:
        return OF_COMPILER[connector.type](context)
    refuse_faults("sink", connector, [name for name, _ in context.schema.attributes], context.where())
    if is_distributed(connector.options):
        if share_of(connector.options) is None:
            return RoundRobinSink(context, make_sink)
        connector = destinations_of(connector)[0]
        context = replace(context, connector=connector)
    if context.guard is not None:
        refuse_reach("sink", connector, context.guard, context.where(), context.given)
    return SINK_TYPES[connector.type](context)
