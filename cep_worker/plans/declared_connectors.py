"""All sources and sinks that plans and artefacts declare, and the problems of invalid ones."""

from __future__ import annotations

from collections.abc import Collection

from cep_common.ids import PlanKey
from cep_common.protocol.registry import DeployedPlan
from cep_worker.plans.connectors import Artefact, DeclaredConnector, declared_by_artefacts, declared_by_plan
from cep_worker.plans.extensions import ConnectorExtensions
from cep_worker.plans.streams import StreamDirectory


class DeclaredConnectors:
    """The declarations of the sources and sinks that should run."""

    def __init__(
        self, extensions: ConnectorExtensions, sources: tuple[Artefact, ...], sinks: tuple[Artefact, ...]
    ) -> None:
        """Start without plans; `sources` and `sinks` are the artefacts, which run once their streams exist."""
        self._extensions = extensions
        self._source_artefacts = sources
        self._sink_artefacts = sinks
        self.sources: list[DeclaredConnector] = []
        self.sinks: list[DeclaredConnector] = []
        self.problems: dict[PlanKey, str] = {}
        """The problems of each plan's declarations; empty: none."""

    def update(
        self,
        importing: Collection[DeployedPlan],
        imported: StreamDirectory,
        exporting: Collection[DeployedPlan],
        exported: StreamDirectory,
    ) -> None:
        """Collect the sources of `importing` plans and the sinks of `exporting` plans."""
        self.sinks = declared_by_artefacts(self._sink_artefacts, exported)
        self.sources = declared_by_artefacts(self._source_artefacts, imported)
        self.problems = {}
        for plan in exporting:
            own_sinks, problem = declared_by_plan(plan, "sink", self._extensions)
            self.sinks += own_sinks
            self.problems[plan.key] = problem
        for plan in importing:
            own_sources, problem = declared_by_plan(plan, "source", self._extensions)
            self.sources += own_sources
            self.problems[plan.key] = self.problems.get(plan.key) or problem
