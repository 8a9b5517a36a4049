"""Tests that were left out are named in the run's last line; with CI=true they fail the run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest

ON_CI = "CI"
"""The variable that says that everything a test needs should be here."""


def reasons_of(skipped: Sequence[pytest.TestReport | pytest.CollectReport]) -> Counter[str]:
    """Return how many tests were left out for each reason."""
    return Counter(_reason(report) for report in skipped)


def last_line(reasons: Counter[str]) -> str:
    """Return the sentence that tells of the tests left out, and why."""
    total = reasons.total()
    if not total:
        return "No test was left out."
    each = "; ".join(f"{count} because: {reason}" for reason, count in reasons.most_common())
    return f"{total} {'test was' if total == 1 else 'tests were'} left out: {each}."


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    match report.longrepr:
        case (str(), int(), str(text)):
            return text.removeprefix("Skipped: ").rstrip(".")
        case other:
            return str(other or "no reason given")


def _skipped(config: pytest.Config) -> Sequence[pytest.TestReport | pytest.CollectReport] | None:
    """Return the reports of what was left out, or None in a process that only runs tests for another one."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(config, "workerinput"):
        return None
    found: Sequence[pytest.TestReport | pytest.CollectReport] = reporter.stats.get("skipped", ())
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Fail the run on CI when anything was left out."""
    if _skipped(session.config) and os.environ.get(ON_CI) == "true" and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the last line, behind the counts that pytest writes."""
    skipped = _skipped(config)
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if skipped is None or reporter is None:
        return
    fails = bool(skipped) and os.environ.get(ON_CI) == "true"
    reporter.write_line(last_line(reasons_of(skipped)) + (" That fails a run with CI=true." if fails else ""))
