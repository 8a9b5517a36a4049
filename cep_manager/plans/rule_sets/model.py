"""Rule sets as callers of the manager see them."""

from __future__ import annotations

from typing import Literal

import msgspec

from cep_common.errors import CepError
from cep_manager.errors import BadRequestError, ManagerError, PlanInvalidError, PlanProblem

RuleAction = Literal["add", "update", "rename", "restart", "activate", "keep", "remove"]
CHANGES: tuple[RuleAction, ...] = ("add", "update", "rename", "restart", "activate", "remove")
"""All actions that change something, in the order in which reports list them."""


class RuleFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a rule set: its path within the folder and the text of the plan in it."""

    file: str
    text: str


class RuleChange(msgspec.Struct, frozen=True):
    """The effect of the change on one plan.

    `former` is the name that a plan had before it was renamed, `file` is empty for one whose file has gone.
    `waiting_events` and `waiting_results` are what a plan that is being removed processes first.
    """

    plan: str
    file: str
    action: RuleAction
    message: str
    former: str = ""
    epoch: int = 0
    waiting_events: int = 0
    waiting_results: int = 0


class RuleProblem(msgspec.Struct, frozen=True):
    """Why a plan prevents the change. `problems` are those of its text."""

    plan: str
    file: str
    code: str
    message: str
    problems: tuple[PlanProblem, ...] = ()


class RuleSetReport(msgspec.Struct, frozen=True):
    """What a change of a rule set did, or would do (`dry_run`), plan by plan.

    `counts` is the number of plans for each action. With `problems` nothing was changed.
    """

    rule_set: str
    tenant: int
    revision: str
    dry_run: bool
    applied: bool
    counts: dict[str, int]
    changes: tuple[RuleChange, ...]
    problems: tuple[RuleProblem, ...] = ()


class DeployedRule(msgspec.Struct, frozen=True):
    """A plan that a rule set deployed: its file, the revision that changed it last, its state and its text."""

    plan: str
    file: str
    revision: str
    state: str
    text: str


class RuleSetDetails(msgspec.Struct, frozen=True):
    """The deployed plans of a rule set."""

    rule_set: str
    tenant: int
    plans: tuple[DeployedRule, ...]


class RuleSetSummary(msgspec.Struct, frozen=True):
    """A rule set, and how many plans of it are deployed."""

    rule_set: str
    plans: int


class RuleSetRefusedError(ManagerError):
    """Plans block the change of a rule set; nothing was changed. The details hold the report."""

    code = "rule-set-refused"

    def __init__(self, report: RuleSetReport) -> None:
        first, count = report.problems[0], len(report.problems)
        more = f" (and {count - 1} more)" if count > 1 else ""
        where = first.file or first.plan
        message = f"rule set {report.rule_set} was not changed: {where}: {first.message}{more}"
        super().__init__(message, {"report": msgspec.to_builtins(report)})
        self.report = report


class UnknownRuleSetError(ManagerError):
    """No plan of a rule set of that name is deployed."""

    code = "unknown-rule-set"


def problem_of(error: CepError, plan: str, file: str) -> RuleProblem:
    """Return the error as a problem of the plan."""
    problems = error.problems if isinstance(error, PlanInvalidError) else ()
    return RuleProblem(plan, file, error.code, error.message, problems)


def report_of(
    rule_set: str,
    tenant: int,
    changes: tuple[RuleChange, ...],
    problems: tuple[RuleProblem, ...] = (),
    *,
    revision: str = "",
    dry_run: bool = False,
) -> RuleSetReport:
    """Return the report of a change."""
    counts: dict[str, int] = {action: sum(one.action == action for one in changes) for action in (*CHANGES, "keep")}
    applied = not dry_run and not problems
    return RuleSetReport(rule_set, tenant, revision, dry_run, applied, counts, changes, problems)


def require_files(rule_set: str, files: tuple[RuleFile, ...]) -> None:
    """Raise BadRequestError when there is no file, or one file twice.

    A folder that is not mounted or not checked out must not remove everything that was deployed from it.
    """
    if not files:
        raise BadRequestError(
            f"there is no plan in rule set {rule_set}, so nothing was changed; to remove all its plans, remove the "
            f"rule set (cep rules remove {rule_set})"
        )
    names = [one.file for one in files]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise BadRequestError(f"rule set {rule_set} has the file {twice[0]} twice")
