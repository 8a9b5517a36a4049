"""What must be done so that what is deployed of a rule set is what its files say. Pure.

A plan belongs to the rule set that deployed it. Plans that were deployed by hand, from the watched folder or by another
rule set are never changed or removed, whatever their names and texts are.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cep_common.ids import PlanKey
from cep_manager.plans.folder import parse_origin
from cep_manager.plans.record import PlanRecord
from cep_manager.plans.rule_sets.model import RuleAction, RuleProblem
from cep_manager.plans.rule_sets.origin import RuleOrigin, parse_rule_origin
from cep_manager.plans.state import PlanState


class WantedRule(msgspec.Struct, frozen=True):
    """A plan that the rule set is to have: its name is what `text` says."""

    plan: str
    file: str
    text: str


class RuleStep(msgspec.Struct, frozen=True):
    """The step of one plan in a change.

    `key` is that of the deployed plan (None: it is added), `text` is empty for one that is removed.
    """

    action: RuleAction
    plan: str
    file: str
    text: str = ""
    key: PlanKey | None = None


class RuleSteps(msgspec.Struct, frozen=True):
    """The steps of a change in order, and the problems that prevent it."""

    steps: tuple[RuleStep, ...]
    problems: tuple[RuleProblem, ...]


def rules_of(rule_set: str, tenant: int, records: Iterable[PlanRecord]) -> dict[PlanKey, tuple[PlanRecord, RuleOrigin]]:
    """Return the deployed plans of the rule set, in order of name."""
    found = {}
    for record in sorted(records, key=lambda one: one.key):
        origin = parse_rule_origin(record.stored.settings.origin)
        if record.key.tenant == tenant and origin is not None and origin.rule_set == rule_set:
            found[record.key] = (record, origin)
    return found


def compare(
    rule_set: str, tenant: int, wanted: Iterable[WantedRule], records: Iterable[PlanRecord], *, removes: bool
) -> RuleSteps:
    """Return the steps from the deployed plans of the rule set to the wanted ones.

    Without `removes`, plans whose files have gone stay deployed.
    """
    deployed = {record.key.plan: record for record in records if record.key.tenant == tenant}
    own = rules_of(rule_set, tenant, deployed.values())
    wanted, problems = _without_namesakes(wanted)
    names = {one.plan for one in wanted}
    free = {origin.file: record for record, origin in own.values() if record.key.plan not in names}
    steps = []
    taken: set[PlanKey] = set()
    for one in wanted:
        record = deployed.get(one.plan)
        if record is None and (record := free.pop(one.file, None)) is not None:
            steps.append(RuleStep("rename", one.plan, one.file, one.text, record.key))
        elif record is None:
            steps.append(RuleStep("add", one.plan, one.file, one.text))
        elif record.key not in own:
            problems.append(RuleProblem(one.plan, one.file, "plan-exists", f"{one.plan} {_other_source(record)}"))
        else:
            steps.append(RuleStep(_action(record, one.text), one.plan, one.file, one.text, record.key))
        if record is not None:
            taken.add(record.key)
    gone = [record.key for record, _ in own.values() if record.key not in taken] if removes else []
    steps += [RuleStep("remove", key.plan, "", key=key) for key in gone]
    # A plan may take the former name of another one, so plans are renamed first and removed last.
    steps.sort(key=lambda step: _ORDER.index(step.action))
    return RuleSteps(tuple(steps), tuple(problems))


_ORDER: tuple[RuleAction, ...] = ("rename", "activate", "update", "restart", "add", "keep", "remove")


def _without_namesakes(wanted: Iterable[WantedRule]) -> tuple[list[WantedRule], list[RuleProblem]]:
    """Return the plans whose names no other file has, and the problems of the others."""
    first: dict[str, WantedRule] = {}
    problems = []
    for one in wanted:
        other = first.setdefault(one.plan, one)
        if other is not one:
            message = f"the plan is named {one.plan}, like the one in {other.file}; choose another name"
            problems.append(RuleProblem(one.plan, one.file, "plan-exists", message))
    return list(first.values()), problems


def _action(record: PlanRecord, text: str) -> RuleAction:
    if record.draining is not None:
        return "activate"
    if record.target()[0] != text:
        return "update"
    return "restart" if record.state is PlanState.FAILED or record.compiled is None else "keep"


def _other_source(record: PlanRecord) -> str:
    """Return the origin of a plan that the rule set does not own, and what to do about it."""
    rule, file = parse_rule_origin(record.stored.settings.origin), parse_origin(record.stored.settings.origin)
    if rule is not None:
        return f"belongs to the rule set {rule.rule_set} (file {rule.file}); remove it there, or choose another name"
    if file is not None:
        return f"comes from the file {file.name} of the watched folder; remove it there, or choose another name"
    return "was deployed by hand; undeploy it, or choose another name"
