"""The console's shell in a real browser: every page for everybody, light and dark; by keyboard; asking before deeds."""

import json
from collections.abc import Iterator

import pytest
from accessibility import SCHEMES, grave_findings, set_scheme
from browser import NEEDS_CHROMIUM, Browser
from manager_world import KEY, FakeView, World, driver, plan, topology
from serving import serving

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

PAGES = (
    "/",
    "/plans",
    "/plans/Storms/undeploy",
    "/deploy",
    "/events",
    "/events/imported/Arrivals:1.0.0",
    "/events/exported/KnockOns:1.0.0",
    "/event-flow",
    "/cluster",
    "/plans/Storms",
    "/plans/Storms/components/lateness",
    "/plans/Storms/checkpoints",
    "/plans/Storms/exceptions",
    "/plans/Storms/errors",
    "/plans/Storms/state?query=from Airports select *",
    "/exceptions",
    "/checkpoints",
    "/workers",
    "/workers/worker-1",
    "/logs",
    "/configuration",
    "/audit",
    "/users",
    "/login",
    "/api",
    "/nothing",
)


@pytest.fixture(scope="module")
def view() -> FakeView:
    world = World()
    world.active(events=12_345)
    world.put(plan(key=PlanKey(SUPER_TENANT, "Broken"), compiled="line 3: stream 'Departure' is not defined"))
    world.hear(driver(topology("running")), peer=b"driver")
    return FakeView(world)


@pytest.fixture(scope="module")
def address(view: FakeView) -> Iterator[str]:
    with serving(create_app(view, 100_000)) as address:
        yield address


@pytest.fixture
def page(chromium: Browser) -> Iterator[Browser]:
    yield chromium
    set_scheme(chromium, "light")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_serious(page: Browser, address: str, path: str) -> None:
    page.open(f"{address}{path}")
    page.until("document.querySelector('.loading') === null")
    for scheme in SCHEMES:
        set_scheme(page, scheme)
        assert grave_findings(page) == []


def test_the_keyboard_gets_past_the_navigation_at_once(page: Browser, address: str) -> None:
    page.open(f"{address}/plans")
    page.press("Tab", 9)
    assert page.evaluate("document.activeElement.className") == "skip"
    page.press("Enter", 13, "\r")
    page.until("document.activeElement.id === 'content'")
    page.press("Tab", 9)
    assert page.evaluate("document.getElementById('content').contains(document.activeElement)")


def test_the_navigation_says_where_one_is(page: Browser, address: str) -> None:
    page.open(f"{address}/cluster")
    assert page.evaluate("document.querySelector('.side [aria-current=page]').textContent") == "Cluster"


def test_the_list_is_searched_and_keeps_what_was_searched(page: Browser, address: str) -> None:
    page.open(f"{address}/plans")
    shown = "[...document.querySelectorAll('[data-words]')].filter((row) => !row.hidden).map((row) => row.id).join()"
    page.until("document.getElementById('filter').offsetParent !== null")
    page.evaluate("document.getElementById('filter').focus()")
    page.type("failed")
    page.until(f"{shown} === 'row-Broken'")
    assert page.evaluate("location.search") == "?q=failed"
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 1200))")
    assert page.evaluate(shown) == "row-Broken"


def test_a_menu_stays_open_while_its_list_is_renewed_and_a_deed_asks_once(
    page: Browser, address: str, view: FakeView
) -> None:
    page.open(f"{address}/plans")
    page.evaluate("document.getElementById('more-Storms').click()")
    menu = "document.getElementById('menu-Storms')"
    page.until(f"{menu}.matches(':popover-open')")
    row = "document.getElementById('row-Storms').textContent"
    box, before = page.evaluate(f"{menu}.getBoundingClientRect().toJSON()"), page.evaluate(row)
    view.world.tick(1_000)
    page.until(f"{row} !== {json.dumps(before)}")
    assert page.evaluate(f"{menu}.matches(':popover-open')")
    assert page.evaluate(f"{menu}.getBoundingClientRect().toJSON()") == box
    assert 0 <= box["left"] < box["right"] <= page.evaluate("innerWidth")
    deactivate = f"[...{menu}.querySelectorAll('button')].find((one) => one.textContent === 'Deactivate')"
    page.evaluate(f"{deactivate}.click()")
    page.until("document.querySelector('dialog[open]') !== null")
    assert page.evaluate("document.getElementById('ask-title').textContent") == "Deactivate Storms?"
    assert grave_findings(page) == []
    page.press("Escape", 27)
    page.until("document.querySelector('dialog') === null")
    assert view.done == []
    page.evaluate(f"{menu}.showPopover(); {deactivate}.click()")
    page.until("document.querySelector('dialog[open]') !== null")
    page.evaluate("document.querySelector('dialog .primary').click()")
    page.until("document.querySelector('.notice') !== null")
    assert view.done == [(KEY, "deactivate")]
    assert page.evaluate("location.pathname + location.search").startswith("/plans?")


def test_axe_would_find_what_is_wrong(page: Browser, address: str) -> None:
    page.open(f"{address}/plans")
    page.evaluate(
        "document.getElementById('content').insertAdjacentHTML('beforeend', '<input><img src=/static/icon.svg>')"
    )
    assert [one.partition(":")[0] for one in grave_findings(page)] == ["image-alt", "label"]


def test_pages_complain_of_nothing(page: Browser, address: str) -> None:
    for path in ("/", "/plans", "/deploy", "/events", "/cluster"):
        page.open(f"{address}{path}")
    assert page.problems == []
