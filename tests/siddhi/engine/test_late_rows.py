"""Late events, events from the future, and backlogs: the results are right, also where Siddhi's are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from siddhi.testing import Case, load_cases, restored, run_case

CASES = list(load_cases(Path(__file__).parent / "late_rows.jsonl"))


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_answer_is_right_however_the_events_are_cut(case: Case) -> None:
    assert run_case(case).differences == ()
    assert run_case(case, batch_rows=1, between=restored).differences == ()
    assert run_case(case, batch_rows=2, between=restored).differences == ()
