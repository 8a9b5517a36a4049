"""Explain how the engine runs the queries of a plan: `cep explain`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import FAILED, with_readable_errors
from cep_cli.plan_commands.plan_text import SET_OPTION, read_plan
from query_plan.examination import examine
from query_plan.findings import Severity
from siddhi.errors import render_problem
from siddhi.explanation import PlanExplanation, explanation_text
from siddhi.scripts.language import ScriptPolicy


@click.command("explain")
@click.argument("plan")
@JSON_OPTION
@SET_OPTION
@manager_options
@with_readable_errors
def explain_command(plan: str, as_json: bool, values: dict[str, str], client: ManagerClient) -> None:
    """Explain for each query of PLAN which operators run it, why no faster ones do, and the expected cost of an event.

    PLAN is a file with an execution plan, for which no system need run, or the name of a deployed plan.
    """
    explanation = _of_file(Path(plan), values) if Path(plan).is_file() else _of_deployed(client, plan)
    if as_json:
        click.echo(msgspec.json.encode(explanation))
    else:
        click.echo(explanation_text(explanation.stages))


def _of_file(file: Path, values: dict[str, str]) -> PlanExplanation:
    from topology.plan_explanation.run import explain_plan  # noqa: PLC0415 - the engine loads for a while

    text = read_plan(file, values)
    examined = examine(text)
    if examined.compiled is None:
        for problem in examined.problems(Severity.ERROR):
            click.echo(f"{file}: {render_problem(problem, text)}\n", err=True)
        sys.exit(FAILED)
    return explain_plan(examined.compiled.xml, ScriptPolicy())


def _of_deployed(client: ManagerClient, plan: str) -> PlanExplanation:
    answer: Any = client.explain(plan)
    return msgspec.convert(answer, PlanExplanation)
