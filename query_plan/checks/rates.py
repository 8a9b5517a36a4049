"""The rule about output rates that hold nothing back, or everything."""

from __future__ import annotations

from collections.abc import Iterator

from query_plan.findings import Finding, warning_rule
from siddhi.language import ast

RATE_OF_NOTHING = warning_rule(
    "output-rate-of-nothing",
    "a query emits events every 0 events, which is never, or every 0 milliseconds, which is immediately",
    "correct the rate, or omit it",
)


def output_rates_are_of_something(app: ast.App) -> Iterator[Finding]:
    """Report output rates of 0 events or no time. Snapshots every 0 milliseconds are refused by the analysis."""
    for element in app.elements:
        for query in element.queries if isinstance(element, ast.Partition) else (element,):
            rate = query.rate
            if isinstance(rate, ast.EventRate) and rate.events == 0:
                effect = "emits only the first event" if rate.kind == "first" else "emits nothing"
                yield RATE_OF_NOTHING.broken(f"'every 0 events' {effect}", _HINT, rate.span)
            elif isinstance(rate, ast.TimeRate) and rate.time.milliseconds == 0:
                yield RATE_OF_NOTHING.broken("a rate of 0 milliseconds delays nothing", _HINT, rate.span)


_HINT = "write a number above 0, or leave 'output … every …' out"
