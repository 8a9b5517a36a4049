"""What validation finds: a problem and how much it matters."""

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


def render_finding(finding: Finding, text: str) -> str:
    """The finding as a person wants to read it: severity, place, message, code, line with carets, hint."""
    return f"{finding.severity.value}: {render_problem(finding.problem, text)}"


def error(code: str, message: str, hint: str, span: ast.Span | None) -> Finding:
    return Finding(Severity.ERROR, Problem(code, message, hint, span))


def warning(code: str, message: str, hint: str, span: ast.Span | None) -> Finding:
    return Finding(Severity.WARNING, Problem(code, message, hint, span))
