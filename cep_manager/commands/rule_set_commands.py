"""Commands on rule sets.

A change is one transaction of the plan store, and passed to the control loop when it is committed, so it is atomic. A
dry run does the same work without the final commit.
"""

from __future__ import annotations

import contextlib
import itertools
from pathlib import PurePath

import msgspec

from cep_common.errors import CepError
from cep_manager.commands.http_paths import TakenPaths
from cep_manager.commands.plan_changes import PlanChanges
from cep_manager.commands.reaches import known_reaches
from cep_manager.errors import ChangeUnderWayError, PlanInvalidError, PlanTooCostlyError
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.plans.outcomes import Outcome, Undeployed
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.rule_sets.comparing import RuleStep, RuleSteps, WantedRule, compare, rules_of
from cep_manager.plans.rule_sets.model import (
    DeployedRule,
    RuleChange,
    RuleFile,
    RuleProblem,
    RuleSetDetails,
    RuleSetRefusedError,
    RuleSetReport,
    RuleSetSummary,
    UnknownRuleSetError,
    problem_of,
    report_of,
    require_files,
)
from cep_manager.plans.rule_sets.origin import RuleOrigin, parse_rule_origin, require_rule_set_name
from cep_manager.plans.stored_plan import SettingsPatch
from query_plan.plan_names import named_after

NOT_OF_THE_PLAN = frozenset({"plan-store", "manager-unavailable", "not-leader", "plans-busy", "kafka-unavailable"})
"""Codes of errors that are not caused by a plan, after which the whole request may be repeated."""

FURTHER_ATTEMPTS = 3
"""How often a change is retried when the control loop has changed the same plans meanwhile."""


class _GivenUpError(Exception):
    """Rolls back the whole transaction."""


class RuleSetCommands:
    """Deploys and removes rule sets."""

    def __init__(self, changes: PlanChanges) -> None:
        self._changes = changes

    def deploy_rules(
        self,
        tenant: int,
        rule_set: str,
        files: tuple[RuleFile, ...],
        revision: str = "",
        *,
        removes: bool = True,
        dry_run: bool = False,
    ) -> RuleSetReport:
        """See `ManagerView.deploy_rules`."""
        require_rule_set_name(rule_set)
        require_files(rule_set, files)
        compiled: dict[str, CompiledPlan] = {}
        wanted, problems = self._compile(tenant, rule_set, files, compiled)
        with self._changes.one_at_a_time:
            return self._change_rules(tenant, rule_set, revision, wanted, problems, compiled, removes, dry_run)

    def remove_rules(self, tenant: int, rule_set: str, *, dry_run: bool = False) -> RuleSetReport:
        """See `ManagerView.remove_rules`."""
        self.rule_set(tenant, rule_set)
        with self._changes.one_at_a_time:
            return self._change_rules(tenant, rule_set, "", [], [], {}, removes=True, dry_run=dry_run)

    def rule_set(self, tenant: int, rule_set: str) -> RuleSetDetails:
        """See `ManagerView.rule_set`."""
        own = rules_of(rule_set, tenant, self._changes.snapshot().plans.values())
        if not own:
            raise UnknownRuleSetError(f"no plan of a rule set named {rule_set[:80]} is deployed for tenant {tenant}")
        plans = (
            DeployedRule(record.key.plan, origin.file, origin.revision, record.state.value, record.target()[0])
            for record, origin in own.values()
        )
        return RuleSetDetails(rule_set, tenant, tuple(plans))

    def rule_sets(self, tenant: int) -> tuple[RuleSetSummary, ...]:
        """See `ManagerView.rule_sets`."""
        counts: dict[str, int] = {}
        for record in self._changes.snapshot().plans.values():
            origin = parse_rule_origin(record.stored.settings.origin)
            if record.key.tenant == tenant and origin is not None:
                counts[origin.rule_set] = counts.get(origin.rule_set, 0) + 1
        return tuple(RuleSetSummary(name, plans) for name, plans in sorted(counts.items()))

    def _compile(
        self, tenant: int, rule_set: str, files: tuple[RuleFile, ...], compiled: dict[str, CompiledPlan]
    ) -> tuple[list[WantedRule], list[RuleProblem]]:
        """Return the plans of the files, each compiled unless that text is already running.

        Those that fail to compile are reported as problems.
        """
        own = rules_of(rule_set, tenant, self._changes.snapshot().plans.values())
        runs = {record.target()[0]: record.key.plan for record, _ in own.values() if record.compiled is not None}
        reaches = known_reaches(self._changes.service.led())
        wanted, problems = [], []
        for one in files:
            text = one.text if one.text in runs else named_after(one.text, PurePath(one.file).stem)
            name = runs.get(text)
            if name is None:
                try:
                    compiled[text] = self._changes.compilers.compile(text, reaches)
                except (PlanInvalidError, PlanTooCostlyError) as error:
                    problems.append(problem_of(error, "", one.file))
                    continue
                name = compiled[text].name
            wanted.append(WantedRule(name, one.file, text))
        return wanted, problems

    def _change_rules(
        self,
        tenant: int,
        rule_set: str,
        revision: str,
        wanted: list[WantedRule],
        problems: list[RuleProblem],
        compiled: dict[str, CompiledPlan],
        removes: bool,
        dry_run: bool,
    ) -> RuleSetReport:
        for attempt in itertools.count():
            try:
                report = self._attempt(tenant, rule_set, revision, wanted, problems, compiled, removes, dry_run)
            except ChangeUnderWayError:
                if attempt == FURTHER_ATTEMPTS:
                    raise
            else:
                break
        if report.problems:
            raise RuleSetRefusedError(report)
        return report

    def _attempt(
        self,
        tenant: int,
        rule_set: str,
        revision: str,
        wanted: list[WantedRule],
        problems: list[RuleProblem],
        compiled: dict[str, CompiledPlan],
        removes: bool,
        dry_run: bool,
    ) -> RuleSetReport:
        """Make the change, unless there are problems.

        Raises ChangeUnderWayError if one of the plans was changed in the meantime.
        """
        found = compare(rule_set, tenant, wanted, self._changes.snapshot().plans.values(), removes=removes)
        problems = [*problems, *found.problems]
        self._compile_missing(found, compiled)
        changes: list[RuleChange] = []
        with contextlib.suppress(_GivenUpError), self._changes.as_one_change():
            for step in found.steps:
                try:
                    changes.append(self._do(tenant, step, RuleOrigin(rule_set, step.file, revision), compiled))
                except CepError as error:
                    if error.code in NOT_OF_THE_PLAN:
                        raise
                    problems.append(problem_of(error, step.plan, step.file))
            problems += self._taken_paths(tenant, found, compiled, {one.plan for one in problems})
            _give_up(bool(problems) or dry_run)
        changes.sort(key=lambda one: one.plan)
        return report_of(rule_set, tenant, tuple(changes), tuple(problems), revision=revision, dry_run=dry_run)

    def _compile_missing(self, found: RuleSteps, compiled: dict[str, CompiledPlan]) -> None:
        """Compile what was changed since the files were read."""
        for step in found.steps:
            if step.text and step.action != "keep" and step.text not in compiled:
                compiled[step.text] = self._changes.compilers.compile(
                    step.text, known_reaches(self._changes.service.led())
                )

    def _do(self, tenant: int, step: RuleStep, origin: RuleOrigin, compiled: dict[str, CompiledPlan]) -> RuleChange:
        if step.key is None:
            key = self._changes.store.key_of(tenant, step.plan)
            outcome = self._changes.add(key, step.text, compiled[step.text])
            self._changes.change_settings(key, SettingsPatch(origin=origin.text()))
            return _changed(step, outcome)
        if step.action == "remove":
            return _removed(self._changes.undeploy(step.key))
        record = self._changes.record(step.key)
        if step.action == "keep":
            was = parse_rule_origin(record.stored.settings.origin)
            if was is not None and was.file != step.file:  # the file was moved; what changed the plan last stays
                moved = RuleOrigin(origin.rule_set, step.file, was.revision)
                self._changes.change_settings(step.key, SettingsPatch(origin=moved.text()))
            return RuleChange(step.plan, step.file, "keep", f"{step.plan} is unchanged", epoch=record.epoch)
        self._changes.change_settings(step.key, SettingsPatch(origin=origin.text()))
        if step.action == "rename":
            return _changed(
                step, self._changes.rename(step.key, step.text, compiled[step.text]), former=record.key.plan
            )
        if step.action == "activate":
            return self._keep_after_all(step, record, compiled)
        return _changed(step, self._changes.deploy_over(record, step.text, compiled[step.text]))

    def _keep_after_all(self, step: RuleStep, record: PlanRecord, compiled: dict[str, CompiledPlan]) -> RuleChange:
        """Keep a plan that is being undeployed, as the text says."""
        if record.goes:
            raise ChangeUnderWayError(f"{step.plan} is being undeployed and about to go; try again in a second")
        self._changes.end_draining(record)
        outcome = self._changes.deploy_over(self._changes.record(record.key), step.text, compiled[step.text])
        kept = f"{step.plan} is not undeployed after all"
        return _changed(step, msgspec.structs.replace(outcome, message=f"{kept}; {outcome.message}"))

    def _taken_paths(
        self, tenant: int, found: RuleSteps, compiled: dict[str, CompiledPlan], refused: set[str]
    ) -> list[RuleProblem]:
        """Return the paths of sources that two plans would share after the change."""
        snapshot, problems = self._changes.snapshot(), []
        taken = TakenPaths(snapshot)
        for step in found.steps:
            key, plan = snapshot.key_named(tenant, step.plan), compiled.get(step.text)
            if key is None or plan is None or step.plan in refused:
                continue
            try:
                taken.refuse(key, plan)
            except PlanInvalidError as error:
                problems.append(problem_of(error, step.plan, step.file))
        return problems


def _give_up(nothing_is_to_stay: bool) -> None:
    if nothing_is_to_stay:
        raise _GivenUpError


def _changed(step: RuleStep, outcome: Outcome, former: str = "") -> RuleChange:
    return RuleChange(step.plan, step.file, step.action, outcome.message, former, outcome.epoch)


def _removed(done: Undeployed) -> RuleChange:
    return RuleChange(
        done.plan,
        "",
        "remove",
        done.message,
        waiting_events=done.waiting_events,
        waiting_results=done.waiting_results,
    )
