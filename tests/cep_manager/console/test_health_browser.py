"""The pages of checkpoints, exceptions and workers in a real browser: for everybody, and asking before deeds."""

from collections.abc import Iterator

import pytest
from accessibility import SCHEMES, grave_findings, set_scheme
from ailing_world import NOW_MS, ailing_world
from browser import NEEDS_CHROMIUM, Browser
from manager_world import KEY, FakeView
from serving import serving

from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

PAGES = (
    "/checkpoints",
    "/plans/Storms/checkpoints",
    "/exceptions",
    "/plans/Storms/exceptions",
    "/workers",
    "/workers/worker-1",
)


@pytest.fixture(scope="module")
def view() -> FakeView:
    made = FakeView(ailing_world())
    made.now_ms = NOW_MS
    return made


@pytest.fixture(scope="module")
def address(view: FakeView) -> Iterator[str]:
    with serving(create_app(view, 100_000)) as address:
        yield address


@pytest.fixture
def page(chromium: Browser) -> Iterator[Browser]:
    chromium.problems.clear()
    yield chromium
    set_scheme(chromium, "light")
    chromium.open("about:blank")  # else the page continues asking a manager that is about to end
    chromium.problems.clear()


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_serious_and_the_console_nothing_to_complain_of(
    page: Browser, address: str, path: str
) -> None:
    page.open(f"{address}{path}")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for scheme in SCHEMES:
        set_scheme(page, scheme)
        assert grave_findings(page) == []
    assert page.problems == []


def test_a_bar_leads_to_its_checkpoint_in_the_history(page: Browser, address: str) -> None:
    page.open(f"{address}/plans/Storms/checkpoints")
    page.evaluate("document.querySelector('.chart a').dispatchEvent(new MouseEvent('click', { bubbles: true }))")
    page.until("document.querySelector('tr:target')?.id === 'checkpoint-11'")


def test_a_savepoint_is_deleted_after_one_question(page: Browser, address: str, view: FakeView) -> None:
    page.open(f"{address}/plans/Storms/checkpoints")
    page.evaluate("document.getElementById('delete-before').click()")
    page.until("document.querySelector('dialog[open]') !== null")
    assert page.evaluate("document.getElementById('ask-title').textContent") == "Delete before?"
    assert "deleted for good" in page.evaluate("document.getElementById('ask-text').textContent")
    assert view.done == []
    page.evaluate("document.querySelector('dialog .solid').click()")
    page.until("document.querySelector('.notice') !== null")
    assert view.done == [(KEY, "delete savepoint before")]


def test_an_opened_traceback_and_a_name_being_written_stay_while_the_page_is_renewed(
    page: Browser, address: str, view: FakeView
) -> None:
    page.open(f"{address}/exceptions")
    opened = "document.querySelector('details[id^=details-Storms]')"
    page.evaluate(f"{opened}.open = true")
    view.now_ms += 40 * 60_000  # errors are no longer fresh: the page changes
    page.until("document.querySelector('.badge.tone-bad') === null")
    assert page.evaluate(f"{opened}.open")
    page.open(f"{address}/plans/Storms/checkpoints")
    page.evaluate("document.getElementById('savepoint-name').focus()")
    page.type("before-2")
    view.world.tick(after_ms=20_000)  # the driver is silent now
    page.evaluate("new Promise((resolve) => setTimeout(resolve, 2500))")
    assert page.evaluate("document.getElementById('savepoint-name').value") == "before-2"
    assert page.evaluate("document.activeElement.id") == "savepoint-name"
