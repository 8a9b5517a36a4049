"""In a real browser: a page is sent what changes, and asks where it is not."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec
import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import COMPILED, FakeView, World, plan, serves, task, worker
from serving import serving

from cep_manager.live.broadcaster import Broadcaster
from cep_manager.plans.compiled_plan import PlannedComponent
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

GRAPH = "document.getElementById('graph').textContent"
DRAWN = "document.querySelectorAll('#graph [data-node]').length > 0"
SENT = "import('/static/live.js').then((module) => module.picture() !== null)"
NOT_SENT = "import('/static/live.js').then((module) => module.picture() === null)"
ASKED = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/topology')).length"


@pytest.fixture
def world() -> World:
    made = World()
    made.active(events=1_000)
    return made


@pytest.fixture
def view(world: World) -> Iterator[FakeView]:
    made = FakeView(world)
    yield made
    made.broadcaster.close()


@pytest.fixture
def address(view: FakeView) -> Iterator[str]:
    with serving(create_app(view, 1_000)) as address:
        yield address
        view.broadcaster.close()


def pass_events(world: World) -> None:
    world.hear(task(events=98_765), worker(serves(events=98_765), revision=world.snapshot().revision))


def test_the_graph_moves_without_being_asked_for(chromium: Browser, address: str, world: World) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until(DRAWN)
    chromium.until(SENT)
    before, asked = chromium.evaluate(GRAPH), chromium.evaluate(ASKED)
    pass_events(world)
    chromium.until(f"{GRAPH} !== {json.dumps(before)}")
    assert chromium.evaluate(ASKED) == asked


def test_what_is_not_known_of_new_stages_is_not_told_as_a_number(chromium: Browser, address: str, world: World) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until(DRAWN)
    chromium.until(SENT)
    calms = PlannedComponent("calms", "processor", 2, ("Late",), ("AirportStorms",))
    components = (*COMPILED.components, calms)  # each instance of one stage feeds each of the other
    world.put(plan(epoch=2, compiled=msgspec.structs.replace(COMPILED, components=components)))
    world.tick()
    chromium.until(f"{GRAPH}.includes('calms#1')")
    assert "NaN" not in chromium.evaluate(GRAPH)


def test_a_page_is_sent_changes_again_after_its_stream_has_ended(
    chromium: Browser, address: str, view: FakeView
) -> None:
    hurry = "(() => { const wait = setTimeout; window.setTimeout = (step, ms) => wait(step, Math.min(ms, 1000)); })()"
    added = chromium.call("Page.addScriptToEvaluateOnNewDocument", source=hurry)["identifier"]
    chromium.open(f"{address}/plans/Storms")
    chromium.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)
    chromium.until(SENT)
    ended, view.broadcaster = view.broadcaster, Broadcaster(2)
    ended.close()
    chromium.until(NOT_SENT)
    chromium.until(SENT)


def test_a_page_asks_when_too_many_watch(chromium: Browser, address: str, world: World, view: FakeView) -> None:
    view.broadcaster.close()
    view.broadcaster = Broadcaster(0)
    chromium.open(f"{address}/plans/Storms")
    chromium.until(DRAWN)
    before = chromium.evaluate(GRAPH)
    pass_events(world)
    chromium.until(f"{GRAPH} !== {json.dumps(before)}")
    assert chromium.evaluate(SENT) is False
    assert chromium.evaluate("document.getElementById('pulse').textContent") == ""
