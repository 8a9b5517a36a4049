"""Help for authors of plans: checks, previews, explanations and trials. Nothing is deployed."""

from __future__ import annotations

from cep_common.clock import Clock
from cep_common.ids import PlanKey
from cep_manager.authoring.edits import EditPreviews
from cep_manager.authoring.explanations import Explanations
from cep_manager.authoring.language import describe_language
from cep_manager.authoring.model import EditPreview, Language, PlanTrial, Preview, Validation
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.authoring.trials import Trials
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.commands.reaches import known_reaches
from cep_manager.config import ManagerConfig
from cep_manager.plans.compiled_plan import CompiledPlan
from siddhi.explanation import PlanExplanation
from siddhi.trial.messages import TrialResult


class AuthoringCommands:
    """Commands on the texts of plans."""

    def __init__(self, changes: PlanChanges, config: ManagerConfig, clock: Clock) -> None:
        self._changes = changes
        self._config = config
        self._compilers = changes.compilers
        processes = BoundedProcesses(config.trial)
        self._trials = Trials(config.trial, config.scripts, clock, processes, self._compilers.check)
        self._explanations = Explanations(config.trial, config.scripts, processes)
        self._edits = EditPreviews(config.trial, config.scripts, processes, self._compile)

    def validate(self, text: str) -> Validation:
        """See `ManagerView.validate`."""
        return self._compilers.validate(text, known_reaches(self._changes.service.led()))

    def preview(self, tenant: int, text: str) -> Preview:
        """See `ManagerView.preview`."""
        return self._compilers.preview(tenant, text)

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        """See `ManagerView.preview_edit`."""
        snapshot = self._changes.snapshot()
        return self._edits.preview(snapshot, snapshot.record(key), text)

    def explain(self, text: str) -> PlanExplanation:
        """See `ManagerView.explain`."""
        return self._explanations.explain(self._compile(text).query_plan)

    def explain_plan(self, key: PlanKey) -> PlanExplanation:
        """See `ManagerView.explain_plan`."""
        return self._explanations.explain(self.query_plan(key))

    def try_plan(self, trial: PlanTrial) -> TrialResult:
        """See `ManagerView.try_plan`."""
        return self._trials.run(trial)

    def query_plan(self, key: PlanKey) -> str:
        """See `ManagerView.query_plan`."""
        record = self._changes.record(key)
        return (record.compiled or self._compile(record.text)).query_plan

    def _compile(self, text: str) -> CompiledPlan:
        return self._compilers.compile(text, looking=True)

    def language(self) -> Language:
        """See `ManagerView.language`."""
        return describe_language(self._config.scripts)
