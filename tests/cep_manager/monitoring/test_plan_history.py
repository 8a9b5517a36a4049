"""`GET /api/v1/plans/NAME/history` and the level of statistics, as clients see them."""

from __future__ import annotations

import pytest
from manager_world import KEY
from storm_world import running_view

from cep_manager.monitoring.metric_tables.model import PlanPoint
from cep_manager.web.app import create_app

NAME = "/api/v1/plans/Storms"


def test_a_metric_comes_in_steps_with_its_unit() -> None:
    view = running_view()
    view.points = tuple(
        PlanPoint(view.now_ms - ago_ms, received=100.0, latency_p99=float(ago_ms)) for ago_ms in (45_000, 15_000, 0)
    )
    told = create_app(view, 1_000).test_client().get(f"{NAME}/history?metric=latency_p99&from=-60000&step=30000").json
    assert (told["unit"], told["source"], told["step_ms"]) == ("ms", "memory", 30_000)
    assert told["points"] == [[view.now_ms - 30_000, 45_000.0], [view.now_ms, 15_000.0]]


def test_without_parameters_it_is_the_events_of_the_last_quarter_of_an_hour() -> None:
    view = running_view()
    view.points = (PlanPoint(view.now_ms - 1_000, received=100.0),)
    told = create_app(view, 1_000).test_client().get(f"{NAME}/history").json
    assert (told["metric"], len(told["points"]), told["points"][-1]) == ("received", 30, [view.now_ms, 100.0])


@pytest.mark.thorough
@pytest.mark.parametrize("query", ["metric=other", "from=1000&to=500", "step=1&from=-86400000", "from=x"])
def test_what_cannot_be_asked_is_refused(query: str) -> None:
    answer = create_app(running_view(), 1_000).test_client().get(f"{NAME}/history?{query}")
    assert (answer.status_code, answer.json["code"]) == (400, "bad-request")


def test_a_plan_that_is_not_deployed_has_no_history() -> None:
    assert create_app(running_view(), 1_000).test_client().get("/api/v1/plans/Other/history").status_code == 404


def test_a_level_is_set_and_another_word_is_refused() -> None:
    view = running_view()
    client = create_app(view, 1_000).test_client()
    assert client.post(f"{NAME}/statistics-level", json={"level": "off"}).status_code == 200
    assert client.post(f"{NAME}/statistics-level", json={"level": "everything"}).status_code == 400
    assert view.done == [(KEY, "statistics off")]
