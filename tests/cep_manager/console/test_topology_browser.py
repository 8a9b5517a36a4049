"""A plan's page and a stage's page in a real browser. Skipped without Chromium."""

import json
from collections.abc import Iterator

import msgspec
import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import FakeView, World, components, driver, plan, serves, task, topology, worker
from serving import serving

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

WIDE = "WWWWWWWWWW_MMMMMMMMMM"
PLACES = (
    "JSON.stringify([...document.querySelectorAll('#graph .node')].map((node) => "
    "[node.dataset.node, node.getAttribute('transform')]))"
)


def beat(world: World, events: int, after_ms: int) -> None:
    """The task and the worker tell of `events`, of a window that is full and of a stage that is always busy."""
    world.now_ms += after_ms
    world.hear(driver(topology("running")), peer=b"driver")
    busy = tuple(
        msgspec.structs.replace(one, busy_ms=world.now_ms) if one.instance == "aircraft#0" else one
        for one in components(events)
    )
    world.hear(msgspec.structs.replace(task(events=events), components=busy, up_ms=world.now_ms))
    report = serves(events=events)
    full = msgspec.structs.replace(report.inflow[1], in_flight_rows=64, window_rows=64)
    report = msgspec.structs.replace(report, inflow=(report.inflow[0], full))
    world.hear(worker(report, revision=world.snapshot().revision))


@pytest.fixture(scope="module")
def world() -> World:
    world = World()
    world.active()
    world.put(plan(key=PlanKey(SUPER_TENANT, WIDE)))
    beat(world, 12_000, 1_000)
    beat(world, 12_345, 1_000)
    return world


@pytest.fixture(scope="module")
def address(world: World) -> Iterator[str]:
    with serving(create_app(FakeView(world), 100_000)) as address:
        yield address


def opened(page: Browser, address: str) -> None:
    """The page is open, and whatever went wrong before is forgotten."""
    page.open("about:blank")
    page.problems.clear()
    page.open(address)


def went_wrong(page: Browser) -> list[str]:
    """All problems but that no more pages may listen to events of the server: those ask for news themselves."""
    return [problem for problem in page.problems if "503" not in problem]


def node(page: Browser, name: str, what: str) -> str:
    return str(page.evaluate(f"document.querySelector('[data-node=\"{name}\"]'){what}"))


def choose(page: Browser, tool: str, value: str) -> None:
    select = f"document.getElementById('graph-{tool}')"
    page.evaluate(f"{select}.value = '{value}'; {select}.dispatchEvent(new Event('change'))")


def test_the_graph_is_coloured_numbered_and_keeps_still_while_its_numbers_move(
    chromium: Browser, address: str, world: World
) -> None:
    opened(chromium, f"{address}/plans/Storms")
    chromium.until("document.querySelectorAll('#graph .node').length === 10")
    assert "step-4" in node(chromium, "aircraft#0", ".getAttribute('class')")
    assert node(chromium, "aircraft#0", ".querySelector('.number').textContent") == "1.00"
    assert "step-0" in node(chromium, "storms#0", ".getAttribute('class')")
    assert chromium.evaluate("document.querySelectorAll('#graph .edge').length") == 11
    assert chromium.evaluate("document.querySelectorAll('#graph .edge.held').length") == 1
    assert "window full" in chromium.evaluate("document.getElementById('graph').textContent")
    before = chromium.evaluate(PLACES)
    chromium.evaluate("document.getElementById('do-rebalance').focus(); window.scrollTo(0, 300)")
    chromium.evaluate("document.querySelector('#processors th[data-sort]:nth-child(3)').click()")
    ordered = "[...document.querySelectorAll('#processors tbody tr')].map((row) => row.id).join()"
    assert chromium.evaluate(ordered) == "stage-aircraft,stage-lateness,stage-storms"
    beat(world, 60_000, 1_000)
    chromium.until("document.getElementById('graph').textContent.includes('60.0')")
    chromium.until("document.getElementById('stage-aircraft').textContent.includes('90\u202f000')")
    assert chromium.evaluate(PLACES) == before
    assert chromium.evaluate("document.activeElement.id") == "do-rebalance"
    assert chromium.evaluate("window.scrollY") == 300
    assert chromium.evaluate(ordered) == "stage-aircraft,stage-lateness,stage-storms"
    assert went_wrong(chromium) == []


def test_the_graph_shows_pressure_hosts_stages_and_the_streams_that_are_wanted(chromium: Browser, address: str) -> None:
    opened(chromium, f"{address}/plans/Storms")
    chromium.until("document.querySelectorAll('#graph .node').length === 10")
    choose(chromium, "colour", "pressure")
    assert node(chromium, "EventReceiver#0", ".querySelector('.number').textContent") == "100%"
    choose(chromium, "colour", "host")
    assert node(chromium, "storms#0", ".querySelector('.number').textContent") == "A"
    assert "10.0.0.2" in chromium.evaluate("document.getElementById('graph-legend').textContent")
    choose(chromium, "grain", "stages")
    chromium.until("document.querySelectorAll('#graph .node').length === 9")
    assert "2 of 2" in node(chromium, "lateness", ".textContent")
    hidden = "document.querySelectorAll('#graph .edge.hidden').length"
    assert chromium.evaluate(hidden) == 0
    chromium.evaluate("document.querySelector('#graph-stream-list input[value=\"Late\"]').click()")
    assert chromium.evaluate(hidden) == 1
    wide = "document.querySelector('#graph svg').viewBox.baseVal.width"
    whole = chromium.evaluate(wide)
    chromium.evaluate("document.getElementById('graph-in').click()")
    assert chromium.evaluate(wide) == pytest.approx(whole / 1.25, rel=0.01)
    chromium.evaluate("document.querySelector('[data-node=\"storms\"]').focus()")
    chromium.press("0", 48, "0")
    assert chromium.evaluate(wide) == pytest.approx(whole, rel=0.01)
    chromium.evaluate("sessionStorage.clear()")
    assert went_wrong(chromium) == []


def test_the_picture_is_a_file_that_stands_alone(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/plans/Storms")
    chromium.until("document.querySelectorAll('#graph .node').length === 10")
    module = f"{address}/static/graph_export.js"
    text = chromium.evaluate(
        f"import('{module}').then(({{ svgText }}) => svgText(document.querySelector('#graph svg'), "
        "{ x: 0, y: 0, width: 800, height: 400 }))"
    )
    assert 'viewBox="0 0 800 400"' in text
    assert "class=" not in text
    assert "rgb(" in text
    assert "aircraft#0" in text


def test_a_node_leads_to_its_stage_and_the_window_goes_with_it(chromium: Browser, address: str) -> None:
    opened(chromium, f"{address}/plans/Storms")
    chromium.evaluate("document.getElementById('window-1d').click()")
    chromium.until("location.search === '?window=1d' && document.querySelectorAll('#graph .node').length === 10")
    assert chromium.evaluate("document.querySelector('#windows tr.chosen').id") == "in-1d"
    chromium.evaluate("document.querySelector('[data-node=\"aircraft#0\"]').dispatchEvent(new MouseEvent('click'))")
    chromium.until("location.pathname === '/plans/Storms/components/aircraft'")
    chromium.until("document.readyState === 'complete'")
    assert chromium.evaluate("location.search") == "?window=1d"
    assert "aircraft#0" in chromium.evaluate("document.getElementById('instances').textContent")
    assert went_wrong(chromium) == []


def test_an_action_says_what_will_happen_and_waits_for_the_answer(
    chromium: Browser, address: str, world: World
) -> None:
    chromium.open(f"{address}/plans/Storms")
    panel = "document.getElementById('ask-rebalance')"
    assert not chromium.evaluate(f"{panel}.matches(':popover-open')")
    chromium.evaluate("document.getElementById('do-rebalance').click()")
    assert chromium.evaluate(f"{panel}.matches(':popover-open')")
    chromium.evaluate("document.getElementById('rebalance-workers').value = '3'")
    beat(world, 70_000, 1_000)
    chromium.until("document.getElementById('windows').textContent.includes('105\u202f000')")
    assert chromium.evaluate(f"{panel}.matches(':popover-open')")
    assert chromium.evaluate("document.getElementById('rebalance-workers').value") == "3"
    chromium.press("Escape", 27)
    assert not chromium.evaluate(f"{panel}.matches(':popover-open')")


def test_hundreds_of_instances_are_shown_by_stage_at_first(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/plans/Storms")
    made = {
        "nodes": [{**_node(f"s{at}#{of}", f"s{at}"), "layer": at + 1} for at in range(10) for of in range(30)],
        "edges": [
            {**_edge(f"s{source}#{of}", "s2#0", stream), "connected": True}
            for source, stream in ((0, "A"), (1, "A"), (0, "B"))
            for of in range(30)
        ],
    }
    counted = chromium.evaluate(
        f"import('{address}/static/graph_stages.js').then(({{ byStage, isLarge }}) => "
        f"{{ const graph = {json.dumps(made)}; return [isLarge(graph), byStage(graph).nodes.length, "
        "byStage(graph).nodes[3].capacity, byStage(graph).nodes[3].received, "
        "byStage(graph).edges.map(({ source, stream, events }) => [source, stream, events])] })"
    )
    assert counted[:4] == [True, 10, 0.5, 300]
    assert counted[4] == [["s0", "A", 30], ["s1", "A", 30], ["s0", "B", 60]]


def _edge(source: str, target: str, stream: str) -> dict[str, object]:
    return {"source": source, "target": target, "stream": stream, "events": None, "events_per_second": None,
            "under_way": 0, "window": 0, "grouping": ""}  # fmt: skip


def _node(name: str, component: str) -> dict[str, object]:
    return {
        "id": name,
        "kind": "processor",
        "label": name,
        "state": "live",
        "host": "h1",
        "task": 0,
        "component": component,
        "stream": "",
        "received": 10,
        "emitted": 1,
        "received_per_second": 1,
        "emitted_per_second": 1,
        "waiting": 0,
        "dropped": 0,
        "busy": 0.1,
        "capacity": 0.5 if name.endswith("#7") else 0.1,
        "process_ms": None,
        "streams_received": [{"stream": "B", "events": 2}],
        "streams_emitted": [{"stream": "A", "events": 1}],
        "last_error": "",
        "connectors": [],
    }


def test_a_name_that_is_too_wide_for_its_node_is_cut_where_its_room_ends(chromium: Browser, address: str) -> None:
    opened(chromium, f"{address}/event-flow")
    titles = "[...document.querySelectorAll('.graph .node .title')]"
    chromium.until(f"{titles}.some((title) => title.textContent.startsWith('WW') && title.textContent.endsWith('…'))")
    assert chromium.evaluate(f"{titles}.some((title) => title.textContent === 'Storms')")
    ends = f"{titles}.map((title) => title.getBBox().x + title.getBBox().width)"
    widths = "[...document.querySelectorAll('.graph .node .box')].map((box) => box.getBBox().width)"
    widest, width = chromium.evaluate(f"[Math.max(...{ends}), Math.min(...{widths})]")
    assert 0.7 * width < widest < width
    assert not went_wrong(chromium)
