"""The sources that run now, kept in step with what plans and artefacts declare."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_worker.connectors import Declared
from cep_worker.figures import ConnectorFigures, figures_of
from cep_worker.sources.base import Source, SourceContext
from cep_worker.sources.file_maker import file_source
from cep_worker.sources.http import http_source
from cep_worker.sources.in_memory import in_memory_source
from cep_worker.sources.zeromq import zeromq_source
from cep_worker.troubles import Trouble
from query_plan.connectors.judging import refuse_faults
from query_plan.connectors.reach import refuse_reach

logger = logging.getLogger(__name__)

SOURCE_TYPES: dict[str, Callable[[SourceContext], Source]] = {
    "file": file_source,
    "http": http_source,
    "inMemory": in_memory_source,
    "zeromq": zeromq_source,
}
"""Each type's maker."""


@dataclass(slots=True)
class _Running:
    declared: Declared
    source: Source | None
    failure: str

    @property
    def error(self) -> str:
        """Why it could not be made, or what is wrong with it since."""
        return self.failure if self.source is None else self.source.error


class RunningSources:
    """Starts and ends sources. One that cannot be made is reported and left out; the rest of its plan runs."""

    def __init__(self, context: Callable[[Declared], SourceContext]) -> None:
        self._context = context
        self._running: list[_Running] = []

    def apply(self, wanted: list[Declared], now_ms: int) -> None:
        """Exactly the sources that `wanted` declares run; unchanged ones go on."""
        before, self._running = self._running, []
        kept: list[tuple[Declared, _Running | None]] = []
        for declaration in wanted:
            same = next((running for running in before if _alike(running.declared, declaration)), None)
            if same is not None:
                before.remove(same)
            kept.append((declaration, same))
        for running in before:  # their ports and paths must be free before others may take them
            if running.source is not None:
                running.source.close()
        for declaration, same in kept:
            if same is None:
                self._running.append(self._start(declaration))
                continue
            same.declared = declaration
            if same.source is not None:
                same.source.reroute(declaration, now_ms)
            self._running.append(same)

    def error(self, key: PlanKey) -> str:
        """What is wrong with a source of the plan, or nothing."""
        for running in self._running:
            if running.error and any(member.key == key for member in running.declared.stream.members):
                return running.error
        return ""

    def troubles(self) -> Iterator[Trouble]:
        """Each source of each plan, and what is wrong with it."""
        for running in self._running:
            connector = running.declared.connector
            for member in running.declared.stream.members:
                yield Trouble(member.key, f"source {connector.type} of {connector.stream}", "source", running.error)

    def figures(self) -> tuple[ConnectorFigures, ...]:
        """How each of them does."""
        return tuple(figures_of("source", one.declared, one.error) for one in self._running)

    def retry(self, now_ms: int) -> None:
        """There is room again for what waited."""
        for source in self._sources():
            source.retry(now_ms)

    def tick(self, now_ms: int) -> None:
        """Time passes for all sources."""
        for source in self._sources():
            source.tick(now_ms)

    def close(self) -> None:
        """No source takes anything any more."""
        for source in self._sources():
            source.close()
        self._running = []

    def _sources(self) -> list[Source]:
        return [running.source for running in self._running if running.source is not None]

    def _start(self, declaration: Declared) -> _Running:
        context = self._context(declaration)
        attributes = [name for name, _ in declaration.stream.schema.attributes]
        try:
            refuse_faults("source", declaration.connector, attributes, context.where())
            if context.guard is not None:
                refuse_reach("source", declaration.connector, context.guard, context.where(), declaration.given)
            return _Running(declaration, SOURCE_TYPES[declaration.connector.type](context), "")
        except CepError as error:
            logger.error("source cannot run: %s", error)  # noqa: TRY400 - expected, the text says it all
            return _Running(declaration, None, error.message)


def _alike(one: Declared, other: Declared) -> bool:
    """The same source, though perhaps of other plans, or under another name of its plan; a path that the plan's name is
    part of is another one then."""
    if one.connector.type == "http" and "receiver.url" not in one.connector.options and not _same_names(one, other):
        return False
    return one.is_like(other)


def _same_names(one: Declared, other: Declared) -> bool:
    return one.plan().plan == other.plan().plan
