"""Compare the files and addresses a plan uses with the allow-lists that workers and driver report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from cep_common.reach.guard import Guard, Reach
from query_plan.annotations import named
from query_plan.connectors.distribution import NAME, destinations_in, destinations_of
from query_plan.connectors.judging import Kind
from query_plan.connectors.reach import reach_faults
from query_plan.connectors.reading import connector_of
from query_plan.databases.stores import store_annotation
from query_plan.findings import Finding, error_rule
from siddhi.language import ast

NOT_ALLOWED = error_rule(
    "not-allowed",
    "a source, sink or store uses a file or address that the processes that would run it do not allow plans to use",
    "see [what plans may reach](connectors/reach.md#what-plans-may-reach)",
)
_KINDS: tuple[Kind, ...] = ("source", "sink")
_OPTIONS_OF_URLS = ("url", "jdbc.url", "password.file")


@dataclass(frozen=True, slots=True)
class WorkerReach:
    """What connected workers allow plans to reach, by worker name.

    It also contains whether stages may use databases that plans name by URL. Without workers or driver nothing is
    known; they check the plan themselves when they register.
    """

    workers: dict[str, Reach] = field(default_factory=dict)
    store_urls: bool = True


UNKNOWN = WorkerReach()


def unreachable(app: ast.App, reaches: WorkerReach) -> Iterator[Finding]:
    """Report every file, address and database that a worker or the stages do not allow."""
    guards = {worker: Guard(reach, here=False) for worker, reach in reaches.workers.items()}
    for definition in app.definitions:
        if isinstance(definition, ast.StreamDefinition):
            for kind in _KINDS:
                for annotation in named(definition.annotations, kind):
                    yield from _of_connector(definition.id, kind, annotation, guards)
        elif isinstance(definition, ast.TableDefinition) and not reaches.store_urls:
            yield from _of_store(definition)


def _of_connector(stream: str, kind: Kind, annotation: ast.Annotation, guards: dict[str, Guard]) -> Iterator[Finding]:
    connector = connector_of(stream, annotation)
    destinations = [one for nested in named(annotation.annotations, NAME) for one in destinations_in(nested)]
    seen: set[tuple[str, str]] = set()
    for worker, guard in guards.items():
        each = enumerate(destinations_of(connector))
        for number, fault in ((number, fault) for number, one in each for fault in reach_faults(kind, one, guard)):
            if (fault.option, fault.message) in seen:
                continue
            seen.add((fault.option, fault.message))
            message = f"@{kind}(type='{connector.type}') of {stream}: {fault.option}: {fault.message}"
            elements = (*destinations[number : number + 1], annotation)
            spans = (one.span for written in elements for one in written.elements if one.key == fault.option)
            hint = f"reported by worker {worker}; use what its configuration lists, or ask its operator"
            yield NOT_ALLOWED.broken(message, hint, next(spans, annotation.span))


def _of_store(table: ast.TableDefinition) -> Iterator[Finding]:
    annotation = store_annotation(table.annotations)
    if annotation is None:
        return
    for element in annotation.elements:
        if element.key in _OPTIONS_OF_URLS:
            message = f"the store of the table {table.id}: {element.key}: plans can use only the operator's datasources"
            hint = "write datasource='…' with a name from stages.datasources of the driver's configuration"
            yield NOT_ALLOWED.broken(message, f"{hint}, or ask its operator for stages.store_urls: true", element.span)
