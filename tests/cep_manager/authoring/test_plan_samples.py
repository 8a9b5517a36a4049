"""The plans to begin with can be deployed as they are."""

import pytest

from cep_manager.authoring.compiler import validate_plan
from cep_manager.authoring.samples import PlanSample, sample, samples
from siddhi.scripts.language import ScriptPolicy


@pytest.mark.parametrize("one", samples(), ids=lambda one: one.name)
def test_every_sample_is_valid_without_warnings_and_says_what_it_does(one: PlanSample) -> None:
    found = validate_plan(one.text, ScriptPolicy())
    assert (found.problems, found.warnings) == ((), ())
    assert one.title
    assert sample(one.name) == one


def test_samples_come_in_their_order_and_an_unknown_one_is_none() -> None:
    assert [one.name for one in samples()] == ["filter", "window", "pattern", "join"]
    assert sample("none") is None
