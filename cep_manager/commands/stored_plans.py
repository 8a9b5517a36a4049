"""The compiled plans of the store, for a new leader.

A standby reads them ahead, so that it has only to read what changed since.
"""

from __future__ import annotations

import logging
import sys

from cep_common.ids import PlanKey
from cep_manager.authoring.compiler import compile_plan
from cep_manager.config import KafkaConfig
from cep_manager.errors import PlanInvalidError
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.record import PlanToRun
from cep_manager.plans.store import PlanStore
from cep_manager.plans.stored_plan import StoredPlan
from cep_manager.topics.brokers import with_brokers
from siddhi.scripts.language import ScriptPolicy

logger = logging.getLogger(__name__)


class StoredPlans:
    """Caches the compiled form of the texts read last. Not thread-safe."""

    def __init__(self, scripts: ScriptPolicy, kafka: KafkaConfig | None = None) -> None:
        self._scripts = scripts
        self._kafka = kafka or KafkaConfig()
        self._compiled: dict[str, CompiledPlan | str] = {}

    def read(self, store: PlanStore) -> tuple[PlanToRun, ...]:
        """Return all plans of the store; one that no longer compiles carries the reason. Raises PlanStoreError."""
        known, self._compiled = self._compiled, {}
        return tuple(self._to_run(stored, known) for stored in store.plans())

    def _to_run(self, stored: StoredPlan, known: dict[str, CompiledPlan | str]) -> PlanToRun:
        compiled = self._compile(stored.key, stored.text, known)
        if stored.former is None:
            return PlanToRun(stored, compiled, sent_before=True)
        before = stored.before_change(stored.former)
        former = PlanToRun(before, self._compile(stored.key, before.text, known), sent_before=True)
        return PlanToRun(stored, compiled, sent_before=True, former=former)

    def _compile(self, key: PlanKey, text: str, known: dict[str, CompiledPlan | str]) -> CompiledPlan | str:
        found = known.get(text)
        if found is None:
            try:
                # it was checked when it was deployed
                found = with_brokers(compile_plan(text, self._scripts, most_words=sys.maxsize), self._kafka)
            except PlanInvalidError as error:
                reason = error.message
                logger.error("stored plan is unusable plan=%s reason=%r", key.topology(), reason)  # noqa: TRY400
                found = f"the stored text can no longer be compiled: {reason}"
        self._compiled[text] = found
        return found
