"""Cases that random testing against Siddhi found, and the right answers to events that fail.

Each line of `found_cases.jsonl` is a case of `siddhi.testing`. `difference` names the entry of the table of deliberate
differences in docs/siddhiql/differences.md when the answer that is expected is not Siddhi's.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from siddhi.testing import Between, Case, load_cases, restored, run_case

HERE = Path(__file__).parent
CASES = list(load_cases(HERE / "found_cases.jsonl"))
PAGE = (HERE.parents[1] / "docs" / "siddhiql" / "differences.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
@pytest.mark.parametrize(("batch_rows", "between"), [(None, None), (1, restored), (2, None)])
def test_a_found_case_has_its_answer_in_every_split(
    case: Case, batch_rows: int | None, between: Between | None
) -> None:
    assert run_case(case, batch_rows, between).differences == ()


def test_every_deliberate_difference_is_in_the_table() -> None:
    named = {case.document["difference"] for case in CASES if "difference" in case.document}
    assert [name for name in sorted(named) if f"\n| {name} |" not in PAGE] == []
