"""The pages of accounts for everybody, light and dark. Skipped where no Chromium is installed."""

from pathlib import Path

import pytest
from accessibility import SCHEMES, grave_findings, set_scheme
from account_world import BODY_BYTES, PASSWORD, AccountWorld, world_in
from browser import NEEDS_CHROMIUM, Browser
from serving import serving

PAGES = ("/account", "/account/password", "/users", "/users/vera", "/audit", "/plans")


def test_whoever_may_not_see_a_page_is_told_why_and_offered_no_deeds(accounts_at_work: AccountWorld) -> None:
    visitor = accounts_at_work.logged_in("vera")
    refused = visitor.client.get("/deploy", headers={"Accept": "text/html"})
    assert refused.status_code == 403
    assert "You may not see this" in refused.text
    assert "vera is viewer, which may not edit plans" in refused.text
    for page in ("/", "/plans"):
        text = visitor.client.get(page).text
        assert "/deploy" not in text
        assert "/plans/Storms/deactivate" not in text
        assert 'href="/users"' not in text
        assert 'href="/cluster"' in text


@pytest.mark.cluster
@NEEDS_CHROMIUM
def test_axe_finds_nothing_serious_where_one_logs_in_and_behind_it(tmp_path: Path, chromium: Browser) -> None:
    with world_in(tmp_path) as world:
        world.add_users()
        with serving(world.app, BODY_BYTES) as address:
            try:
                found = _looked_at(chromium, address)
            finally:
                chromium.open("about:blank")
                chromium.problems.clear()
                set_scheme(chromium, "light")
    assert found == {}


def _looked_at(browser: Browser, address: str) -> dict[str, list[str]]:
    """What was found, by page and scheme."""
    browser.call("Network.clearBrowserCookies")
    browser.open(f"{address}/login")
    found = _in_both(browser, "/login")
    for identifier, text in (("name", "ada"), ("password", f"{PASSWORD}\n")):
        browser.evaluate(f"document.getElementById('{identifier}').focus()")
        browser.type(text)
    browser.until("document.querySelector('nav.side') !== null")
    for page in PAGES:
        browser.open(f"{address}{page}")
        found |= _in_both(browser, page)
    return found


def _in_both(browser: Browser, page: str) -> dict[str, list[str]]:
    found = {}
    for scheme in SCHEMES:
        set_scheme(browser, scheme)
        if grave := grave_findings(browser):
            found[f"{page} {scheme}"] = grave
    return found
