"""Trials of plans in processes of their own: bounded, and told in words what went wrong."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cep_common.clock import SystemClock
from cep_manager.authoring.model import PlanTrial
from cep_manager.authoring.preview import preview_plan
from cep_manager.authoring.trials import MOST_EVENTS, Trials
from cep_manager.config import TrialConfig
from cep_manager.errors import BadRequestError, PlanInvalidError, TrialsBusyError
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.messages import TrialEvent

PLAN = "define stream S (a int); from S select a * 2 as b insert into T;"
ENDLESS = """
define function f[python] return int {
    while True:
        pass
    return 1
};
define stream S (a int); from S select f(a) as b insert into T;
"""
HUNGRY = ENDLESS.replace("while True:\n        pass\n", "").replace("return 1", "return len([0] * (10 ** 10))")
NO_SCRIPTS = ScriptPolicy(frozenset(), "script.python: true")
FLIGHTS = Path(__file__).parents[3] / "samples" / "flights" / "KnockOnDelays.siddhiql"


def trials(scripts: ScriptPolicy = NO_SCRIPTS, **settings: int) -> Trials:
    # The engine is loaded first, which takes long beside other tests.
    return Trials(TrialConfig(**{"timeout_ms": 90_000, **settings}), scripts, SystemClock())


def event(value: object) -> TrialEvent:
    return TrialEvent("S", [value])


@pytest.mark.cluster
def test_a_trial_gives_what_the_plan_gives() -> None:
    trying = trials(timeout_ms=60_000)  # a busy host takes long to load the engine
    result = trying.run(PlanTrial(PLAN, (event(21),), start_ms=5_000))
    assert [(one.name, [row.values for row in one.rows]) for one in result.outputs][:2] == [
        ("S", [[21]]),
        ("T", [[42]]),
    ]
    assert result.start_ms == 5_000
    with pytest.raises(BadRequestError, match="event 1: 'a' must be int"):
        trying.run(PlanTrial(PLAN, (event("x"),)))


def test_what_cannot_be_tried_is_refused_before_a_process_starts() -> None:
    with pytest.raises(PlanInvalidError) as invalid:
        trials().run(PlanTrial("define stream S (a int); from R select a insert into T;", ()))
    assert [problem.code for problem in invalid.value.problems] == ["unknown-stream"]
    with pytest.raises(PlanInvalidError, match="are disabled here"):
        trials().run(PlanTrial(ENDLESS, (event(1),)))
    with pytest.raises(BadRequestError, match="at most 5000 events"):
        trials().run(PlanTrial(PLAN, (event(1),) * (MOST_EVENTS + 1)))
    with pytest.raises(BadRequestError, match="wait_ms"):
        trials().run(PlanTrial(PLAN, (), wait_ms=-1))


@pytest.mark.cluster
def test_a_plan_that_never_ends_is_ended_and_meanwhile_no_other_is_tried() -> None:
    one = trials(ScriptPolicy(), timeout_ms=1_500, at_once=1)
    with ThreadPoolExecutor(2) as both:
        runs = [both.submit(one.run, PlanTrial(ENDLESS, (event(1),))) for _ in range(2)]
    told = sorted(str(run.exception()) for run in runs)
    assert told[0].startswith("1 trials are running")
    assert told[1].startswith("the trial was stopped after 1500 ms")


@pytest.mark.cluster
def test_a_plan_that_needs_too_much_memory_is_ended_or_fails_alone() -> None:
    result = trials(ScriptPolicy()).run(PlanTrial(HUNGRY, (event(1),)))
    assert result.failures == {"S": 1}


def test_trials_can_be_switched_off() -> None:
    with pytest.raises(TrialsBusyError, match=r"trial\.at_once"):
        trials(at_once=0).run(PlanTrial(PLAN, ()))


def test_a_preview_shows_every_planned_instance_and_the_plan_in_words() -> None:
    preview = preview_plan(-1234, FLIGHTS.read_text(encoding="utf-8"), NO_SCRIPTS)
    assert preview.plan == "KnockOnDelays"
    assert {node.state for node in preview.graph.nodes} == {"expected"}
    assert sum(node.label.startswith("lateness#") for node in preview.graph.nodes) == 2
    assert preview.query_plan.startswith("<")
    assert "execution groups" in preview.explanation
    with pytest.raises(PlanInvalidError):
        preview_plan(-1234, "nothing", NO_SCRIPTS)
