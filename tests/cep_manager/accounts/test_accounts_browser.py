"""Logging in and what follows, in a real browser. Skipped where no Chromium is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from account_world import BODY_BYTES, PASSWORD, AccountWorld, world_in
from browser import NEEDS_CHROMIUM, Browser
from serving import serving

from cep_common.security.access import AccessRole

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

SEND = "document.querySelector('form').requestSubmit()"


@pytest.fixture
def served(tmp_path: Path, chromium: Browser) -> Iterator[tuple[AccountWorld, str]]:
    """A world, and where it is served; the browser is not logged in there."""
    with world_in(tmp_path) as world:
        world.add_users()
        with serving(world.app, BODY_BYTES) as address:
            chromium.call("Network.clearBrowserCookies")
            yield world, address
            chromium.open("about:blank")  # else the page continues asking a manager that is about to end
            chromium.problems.clear()


def write(browser: Browser, **fields: str) -> None:
    """Each text is written into the field of that id, by keys."""
    for identifier, text in fields.items():
        browser.evaluate(f"document.getElementById('{identifier}').select()")
        browser.type(text)


def log_in(browser: Browser, address: str, page: str = "/account") -> None:
    browser.open(f"{address}{page}")
    write(browser, name="ada", password=PASSWORD)
    browser.press("Enter", 13, "\r")
    browser.until(f"location.pathname === '{page}' && document.readyState === 'complete'")


def test_a_person_logs_in_by_keyboard_makes_a_user_and_logs_out(
    served: tuple[AccountWorld, str], chromium: Browser
) -> None:
    world, address = served
    chromium.open(f"{address}/users")
    chromium.until("document.activeElement.id === 'name'")
    chromium.type("ada")
    chromium.press("Tab", 9)
    chromium.type("wrong\n")
    chromium.until("document.querySelector('[role=alert]')?.textContent.includes('do not match')")
    chromium.until("document.activeElement.id === 'password'")
    chromium.type(f"{PASSWORD}\n")
    chromium.until("location.pathname === '/users' && document.readyState === 'complete'")
    write(chromium, **{"user-name": "lena"})
    chromium.press("Enter", 13, "\r")
    password = chromium.until("document.getElementById('secret')?.textContent")
    assert world.accounts.log_in("lena", password, "127.0.0.1").must_change_password
    chromium.evaluate("document.getElementById('log-out').click()")
    chromium.until("document.querySelector('[role=status]')?.textContent === 'You are logged out.'")


def test_a_user_is_deleted_only_after_a_question(served: tuple[AccountWorld, str], chromium: Browser) -> None:
    world, address = served
    log_in(chromium, address, "/users/vera")
    for answer, left in (('""', True), ('"yes"', False)):
        chromium.evaluate("document.getElementById('delete').click()")
        chromium.until("!!document.querySelector('dialog[open]')")
        chromium.evaluate(f"document.querySelector('dialog button[value={answer}]').click()")
        chromium.until("!document.querySelector('dialog')")
        if not left:
            chromium.until("location.pathname === '/users' && document.readyState === 'complete'")
        assert (world.accounts.users.find("vera") is not None) == left


def test_scripts_prove_where_they_come_from_and_tell_when_one_was_logged_out(
    served: tuple[AccountWorld, str], chromium: Browser
) -> None:
    world, address = served
    log_in(chromium, address, "/plans")
    called = "import('/static/call.js').then(({{ call }}) => call('/api/v1/plans/Storms/restart', {options}))"
    status = called.format(options="{ method: 'POST' }") + ".then((answer) => answer.status)"
    assert chromium.evaluate(status) == 200
    assert chromium.evaluate("fetch('/api/v1/plans/Storms/restart', { method: 'POST' }).then((a) => a.status)") == 403
    world.accounts.users.change("ada", {"role": AccessRole.ADMIN.value}, end_sessions=True)
    world.accounts.forget_seen()
    chromium.until("document.getElementById('logged-out')?.textContent.includes('You were logged out')")
    assert chromium.evaluate("document.querySelector('#logged-out a').getAttribute('href')") == "/login?next=%2Fplans"
    assert chromium.evaluate("!!document.querySelector('table, .card')"), "what there was stays to be read"
