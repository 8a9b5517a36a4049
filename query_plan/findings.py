"""What validation finds: a broken rule, its place, and how much it matters."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from siddhi.errors import Problem, render_problem
from siddhi.language import ast


class Severity(str, Enum):
    """An error keeps a plan from being deployed; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    problem: Problem


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of distribution. `code` is stable; `meaning` says when it is broken and `remedy` what mends that, for the
    table in `docs/query-plan.md`."""

    code: str
    severity: Severity
    meaning: str
    remedy: str

    def broken(self, message: str, hint: str, span: ast.Span | None) -> Finding:
        """The finding that the rule does not hold at `span` (None: for the plan as a whole)."""
        return Finding(self.severity, Problem(self.code, message, hint, span))


def error_rule(code: str, meaning: str, remedy: str) -> Rule:
    """A rule without which a plan cannot be deployed."""
    return Rule(code, Severity.ERROR, meaning, remedy)


def warning_rule(code: str, meaning: str, remedy: str) -> Rule:
    """A rule that only speaks of what is probably not meant."""
    return Rule(code, Severity.WARNING, meaning, remedy)


def render_finding(finding: Finding, text: str) -> str:
    """The finding as a person wants to read it: severity, place, message, code, line with carets, hint."""
    return f"{finding.severity.value}: {render_problem(finding.problem, text)}"
