"""Commands that need no running system: validate, query-plan, simulate."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import click

from cep_cli.errors import FAILED, with_readable_errors
from cep_cli.plan_text import PLAN_FILE, SET_OPTION, read_plan
from query_plan.examination import examine
from query_plan.explain import explain
from query_plan.findings import Finding, Severity
from siddhi.errors import render_problem


@click.command("validate")
@click.argument("file", type=PLAN_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@SET_OPTION
@with_readable_errors
def validate_command(file: Path, as_json: bool, values: dict[str, str]) -> None:
    """Report everything that is wrong with the execution plan in FILE; exit with 1 when something is."""
    text = read_plan(file, values)
    findings = examine(text).findings
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if as_json:
        click.echo(json.dumps({"valid": not errors, "findings": [_as_dict(finding) for finding in findings]}))
    else:
        for finding in findings:
            click.echo(f"{file}: {finding.severity.value}: {render_problem(finding.problem, text)}\n")
        click.echo(f"{file}: {_count(len(errors), 'error')}, {_count(len(findings) - len(errors), 'warning')}")
    if errors:
        sys.exit(FAILED)


@click.command("query-plan")
@click.argument("file", type=PLAN_FILE)
@click.option("--explain", "explained", is_flag=True, help="Describe stages, groupings and hot spots in words.")
@SET_OPTION
@with_readable_errors
def query_plan_command(file: Path, explained: bool, values: dict[str, str]) -> None:
    """Print the XML query plan that the execution plan in FILE is compiled to."""
    text = read_plan(file, values)
    examined = examine(text)
    if examined.compiled is None:
        for problem in examined.problems(Severity.ERROR):
            click.echo(f"{file}: {render_problem(problem, text)}\n", err=True)
        sys.exit(FAILED)
    click.echo(explain(examined.compiled.plan) if explained else examined.compiled.xml)


@click.command("simulate")
@click.argument("cases", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="Write one JSON result a line to this file."
)
@click.option("--json", "as_json", is_flag=True, help="End with one line of JSON that sums up.")
@click.option("--batch-rows", type=click.IntRange(min=1), help="Send at most so many single events at once.")
@with_readable_errors
def simulate_command(cases: Path, out: Path | None, as_json: bool, batch_rows: int | None) -> None:
    """Run the cases in CASES (JSON lines) on the engine, in this process, and compare with what they expect."""
    from siddhi.testing import load_cases, run_case  # noqa: PLC0415 - the engine loads for a while

    passed: Counter[str] = Counter()
    total: Counter[str] = Counter()
    failed: list[str] = []
    lines: list[str] = []
    for case in load_cases(cases):
        result = run_case(case, batch_rows)
        total[case.feature] += 1
        passed[case.feature] += result.passed
        if not result.passed:
            failed.append(case.id)
            click.echo(f"{case.id}: {'not supported' if result.unsupported else 'differs'}")
            for difference in result.differences:
                click.echo(f"  {difference}")
        if out is not None:
            lines.append(json.dumps({"id": case.id, "passed": result.passed, "differences": result.differences}))
    if out is not None:
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    for feature in sorted(total):
        click.echo(f"{feature:<40} {passed[feature]:>5} of {total[feature]:>5} pass")
    count = sum(total.values())
    click.echo(f"{'all':<40} {count - len(failed):>5} of {count:>5} pass")
    if as_json:
        click.echo(json.dumps({"cases": count, "passed": count - len(failed), "failed": failed}))
    if failed:
        sys.exit(FAILED)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _as_dict(finding: Finding) -> dict[str, object]:
    problem = finding.problem
    return {
        "severity": finding.severity.value,
        "code": problem.code,
        "message": problem.message,
        "hint": problem.hint,
        "line": problem.span.line if problem.span else None,
        "column": problem.span.column if problem.span else None,
    }
