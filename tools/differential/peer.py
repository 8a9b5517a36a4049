"""The engine against the real Siddhi."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from siddhi.analysis.analyser import analyse
from siddhi.errors import SiddhiError
from siddhi.language.parser import parse
from siddhi.testing import run_case
from tools.differential.siddhi_process import SiddhiAnswer, SiddhiProcess
from tools.differential.variants import as_case


@dataclass(frozen=True, slots=True)
class ResultComparison:
    """The comparison of a case in both engines.

    `outcome` is one of `equal`, `differs`, `refused by both`, `Siddhi failed` (it logged an error of its own, or did
    not end); `differences` say how it differs.
    """

    outcome: str
    differences: tuple[str, ...] = ()
    answer: SiddhiAnswer | None = None


def compare(document: Mapping[str, Any], siddhi: SiddhiProcess, *, failing: bool) -> ResultComparison:
    """Play a case in both engines.

    Args:
        document: the case.
        siddhi: the other engine.
        failing: whether events of the case are meant to fail, so that errors of Siddhi say nothing.
    """
    answer = siddhi.play(document)
    if answer.hung:
        return ResultComparison("Siddhi failed")
    if answer.error is not None:
        refusal = _refusal(document["app"])
        if refusal is not None:
            return ResultComparison("refused by both")
        return ResultComparison("differs", (f"accepted, Siddhi refuses: {answer.error['message'][:300]}",), answer)
    if answer.failures and not failing and not all("primary key" in text.lower() for text in answer.failures):
        return ResultComparison("Siddhi failed", answer.failures, answer)
    result = run_case(as_case(document, answer.expect))
    if result.passed:
        return ResultComparison("equal", (), answer)
    if any(word in document["app"] for word in ("@PrimaryKey", "@Index", "define aggregation")):
        # Rows that are found by a key, and buckets of aggregations, come in the order of a Java hash map.
        unordered = {**document, "tags": ["java-hash-order"]}
        if run_case(as_case(unordered, answer.expect)).passed:
            return ResultComparison("equal but for the order", (), answer)
    return ResultComparison("differs", result.differences, answer)


def _refusal(text: str) -> str | None:
    try:
        analyse(parse(text))
    except SiddhiError as error:
        return str(error)
    return None
