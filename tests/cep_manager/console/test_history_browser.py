"""The charts of a plan's page in a real browser. Skipped where no Chromium is installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from accessibility import SCHEMES, grave_findings, set_scheme
from browser import NEEDS_CHROMIUM, Browser
from manager_world import KEY, FakeView
from serving import serving
from storm_world import running_view

from cep_manager.monitoring.metric_tables.model import PlanPoint
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

PLOT = "document.querySelector('#history figure .plot')"


@pytest.fixture
def view() -> FakeView:
    made = running_view()
    made.points = tuple(
        PlanPoint(made.now_ms - 30_000 * ago, received=1_000.0 + ago, emitted=90.0, latency_p99=6.5)
        for ago in range(9, -1, -1)
    )
    return made


@pytest.fixture
def address(view: FakeView) -> Iterator[str]:
    with serving(create_app(view, 10_000)) as address:
        yield address


def test_charts_are_drawn_and_the_keys_move_along_them(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until(f"{PLOT} !== null")
    captions = "[...document.querySelectorAll('#history figcaption')].map((one) => one.textContent)"
    events, latency, capacity, *_ = chromium.evaluate(captions)
    assert events == "Eventsin 1\u202f000 /sout 90 /s"
    assert latency == "Latencyp50 –p99 6.5 ms"
    assert capacity == "Capacitybusiest instance: nothing recorded"
    assert chromium.evaluate(f"{PLOT}.querySelectorAll('path.line').length") == 2
    chromium.evaluate(f"{PLOT}.focus()")
    chromium.press("ArrowLeft", 37)
    assert "in 1\u202f001 /s, out 90 /s" in chromium.evaluate(f"{PLOT}.getAttribute('aria-valuetext')")
    assert chromium.evaluate("document.getElementById('history-told').textContent").startswith(
        "From the manager's memory"
    )
    assert chromium.problems == []
    for scheme in SCHEMES:
        set_scheme(chromium, scheme)
        assert grave_findings(chromium) == []


def test_a_range_that_is_chosen_is_shown_although_somebody_reads_the_charts(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until(f"{PLOT} !== null")
    chromium.evaluate(f"window.before = {PLOT}; before.focus()")
    chromium.evaluate(
        "(() => { const range = document.getElementById('history-range'); range.value = '3600000';"
        "range.dispatchEvent(new Event('change')) })()"
    )
    chromium.until(f"{PLOT} !== window.before")


def test_the_level_of_statistics_is_set_from_the_page(chromium: Browser, address: str, view: FakeView) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until(f"{PLOT} !== null")
    chromium.evaluate("document.getElementById('do-statistics').click()")
    chromium.until("document.querySelector('#ask-statistics:popover-open') !== null")
    chromium.evaluate("document.getElementById('statistics-level').value = 'detail'")
    chromium.evaluate("document.querySelector('#ask-statistics .button.primary').click()")
    chromium.until("document.body.textContent.includes('uses the new level')")
    assert view.done == [(KEY, "statistics detail")]
