"""`cep sample`: samples of the events that the stages of a running plan process."""

from __future__ import annotations

import json
import time
from collections import Counter
from typing import Any

import click

from cep_cli.client.options import JSON_OPTION, manager_options
from cep_cli.client.rest import ManagerClient
from cep_cli.errors import with_readable_errors

POLL_S = 1.0


@click.command("sample")
@click.argument("plan")
@click.option("--stage", default="", help="Sample only this stage. Default: all stages.")
@click.option("--percent", type=click.FloatRange(0, 100, min_open=True), default=10.0, show_default=True)
@click.option("--seconds", type=click.IntRange(1, 3_600), default=60, show_default=True, help="Duration of sampling.")
@JSON_OPTION
@manager_options
@with_readable_errors
def sample_command(plan: str, stage: str, percent: float, seconds: int, as_json: bool, client: ManagerClient) -> None:
    """Show about PERCENT % of the input and output events of the stages of PLAN.

    At most ten events a second of each stream are shown; nothing is restarted. Ctrl-C ends it.
    """
    client.act(plan, "sample", component=stage, percent=percent, for_s=seconds)
    shown: Counter[tuple[Any, ...]] = Counter()
    try:
        while True:
            answer = client.samples(plan, stage)
            shown = _show(answer["events"], shown, as_json)
            if not answer["orders"]:
                break
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        client.act(plan, "sample", component=stage, percent=0)


def _show(events: list[dict[str, Any]], before: Counter[tuple[Any, ...]], as_json: bool) -> Counter[tuple[Any, ...]]:
    """Print the events that were not printed before. Return all printed events that may be reported again."""
    now: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        place = tuple(event.values())
        now[place] += 1
        if now[place] > before[place]:
            click.echo(json.dumps(event) if as_json else _line(event))
    return now


def _line(event: dict[str, Any]) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(event["at_ms"] / 1_000))
    return f"{at} {event['instance']} {event['direction']:>3} {event['stream']} {event['event']}"
