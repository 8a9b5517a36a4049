"""Commands that need no running system: validate, query-plan, simulate."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path

import click

from cep_cli.errors import FAILED, with_readable_errors
from cep_cli.plan_commands.plan_text import PLAN_FILE, SET_OPTION, read_plan
from query_plan.examination import examine
from query_plan.explain import explain
from query_plan.findings import Finding, Severity, render_finding
from siddhi.errors import render_problem


@click.command("validate")
@click.argument("file", type=PLAN_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
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
            click.echo(f"{file}: {render_finding(finding, text)}\n")
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
@click.argument("cases", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results to this file, one JSON object per line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as the last line of JSON.")
@click.option(
    "--batch-rows", type=click.IntRange(min=1), help="Maximum number of events in flight when they are sent one by one."
)
@with_readable_errors
def simulate_command(cases: tuple[Path, ...], out: Path | None, as_json: bool, batch_rows: int | None) -> None:
    """Run cases on the engine, in this process, and compare with what they expect.

    CASES are files of JSON lines (.jsonl, also compressed as .jsonl.gz or .jsonl.xz), or folders with such files.
    A case that is malformed, or on which the engine fails, counts as failed, and the next one runs. Exit with 1 when
    a case failed.
    """
    from siddhi.testing import load_cases, run_case  # noqa: PLC0415 - the engine loads for a while

    files = case_files(cases)
    tally = _Tally()
    with out.open("w", encoding="utf-8") if out is not None else nullcontext() as results:
        for file in files:
            before = tally.total.total()
            for case in load_cases(file):
                result = run_case(case, batch_rows)
                tally.add(case.feature, case.id, passed=result.passed)
                if not result.passed:
                    where = f"{file}: " if len(files) > 1 and not case.id.startswith(str(file)) else ""
                    click.echo(f"{where}{case.id}: {result.verdict}")
                    for difference in result.differences:
                        click.echo(f"  {difference}")
                if case.fault:
                    click.echo(f"no case: {case.fault}", err=True)
                if results is not None:
                    line = {"id": case.id, "passed": result.passed, "differences": result.differences}
                    results.write(json.dumps({**line, "verdict": result.verdict, "file": str(file)}) + "\n")
            if tally.total.total() == before:
                click.echo(f"{file}: contains no test case", err=True)
    tally.tell(as_json=as_json)
    if tally.failed:
        sys.exit(FAILED)


class _Tally:
    """Counts cases, and those that passed, by feature."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()
        self.total: Counter[str] = Counter()
        self.failed: list[str] = []

    def add(self, feature: str, case_id: str, *, passed: bool) -> None:
        self.total[feature] += 1
        self.passed[feature] += passed
        if not passed:
            self.failed.append(case_id)

    def tell(self, *, as_json: bool) -> None:
        for feature in sorted(self.total):
            click.echo(f"{feature:<40} {self.passed[feature]:>5} of {self.total[feature]:>5} pass")
        count = self.total.total()
        passed = count - len(self.failed)
        click.echo(f"{'all':<40} {passed:>5} of {count:>5} pass")
        if as_json:
            click.echo(json.dumps({"cases": count, "passed": passed, "failed": self.failed}))


def case_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files of cases among `paths`, and those in the folders among them, each once.

    ClickException when a folder has none.
    """
    from siddhi.case_reading import CASE_FILES  # noqa: PLC0415 - the language loads for a while

    files: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir():
            files[path] = None
            continue
        found = sorted(file for file in path.rglob("*") if file.is_file() and file.name.endswith(CASE_FILES))
        if not found:
            raise click.ClickException(f"{path}: no file in this folder is called *{', *'.join(CASE_FILES)}")
        files.update(dict.fromkeys(found))
    return list(files)


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
