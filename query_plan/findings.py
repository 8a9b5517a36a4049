"""Findings of validation: a broken rule, its position and its severity."""

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
    """A problem that validation found, and how severe it is."""

    severity: Severity
    problem: Problem


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of distribution.

    `code` is stable. `meaning` says when it is broken and `remedy` how to fix that, for the table in
    `docs/query-plan/rules.md`. Their links start at `docs`.
    """

    code: str
    severity: Severity
    meaning: str
    remedy: str

    def broken(self, message: str, hint: str, span: ast.Span | None) -> Finding:
        """Return a finding that the rule is broken at `span` (None: by the plan as a whole)."""
        return Finding(self.severity, Problem(self.code, message, hint, span))


def error_rule(code: str, meaning: str, remedy: str) -> Rule:
    """Return a rule that a plan must meet to be deployed."""
    return Rule(code, Severity.ERROR, meaning, remedy)


def warning_rule(code: str, meaning: str, remedy: str) -> Rule:
    """Return a rule that only warns about what is probably a mistake."""
    return Rule(code, Severity.WARNING, meaning, remedy)


def render_finding(finding: Finding, text: str) -> str:
    """Render the finding for a person: severity, place, message, code, line with carets, hint."""
    return f"{finding.severity.value}: {render_problem(finding.problem, text)}"
