"""`js:eval`."""

from __future__ import annotations

import pytest
from extension_runs import Run

from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy


def evaluated(selection: str) -> Run:
    return Run(
        f"@app:playback define stream In (t string); @info(name='q') from In select {selection} insert into Out;"
    )


def test_an_expression_gives_a_value_of_the_type() -> None:
    run = evaluated("js:eval(t, 'bool') as b, js:eval('700 + 1', 'int') as i, js:eval(\"'a' + 1\", 'string') as s")
    run.send((0, ["700 > 800"]), (1, ["var x = 3; x > 2"]), (2, [None]))
    assert run.taken() == ["+False,701,a1", "+True,701,a1", "+False,701,a1"]


def test_what_cannot_be_evaluated_fails_and_leaves_nothing_behind() -> None:
    run = evaluated("js:eval(t, 'int') as i")
    run.send((0, ["1 +"]), (1, ["y = 5"]), (2, ["typeof y === 'undefined' ? 1 : 2"]), (3, ["'a'"]))
    assert run.taken() == ["+1"]


def test_the_type_must_be_one_and_plans_must_be_allowed_to_use_javascript() -> None:
    text = "define stream In (t string); from In select js:eval(t, '{}') as x insert into Out;"
    with pytest.raises(SiddhiAnalysisError, match="is not a type"):
        analyse(parse(text.format("number")))
    with pytest.raises(SiddhiAnalysisError, match="are disabled here"):
        analyse(parse(text.format("bool")), builtin_registry(ScriptPolicy(frozenset())))
