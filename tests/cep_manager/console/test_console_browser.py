"""Times in a real browser. Skipped where no Chromium is installed."""

from collections.abc import Iterator

import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import FakeView, World
from serving import serving

from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]


@pytest.fixture
def address() -> Iterator[str]:
    world = World()
    world.active(events=12_345)
    with serving(create_app(FakeView(world), 1_000)) as address:
        yield address


@pytest.fixture
def far_away(chromium: Browser) -> Iterator[Browser]:
    """The browser of a reader in Tokyo."""
    chromium.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    yield chromium
    chromium.call("Emulation.setTimezoneOverride", timezoneId="")


def test_times_are_shown_in_the_readers_own_zone(far_away: Browser, address: str) -> None:
    far_away.open(f"{address}/cluster")
    midnight = "document.querySelector('time[datetime=\\'2026-01-01T00:00:00Z\\']')"
    far_away.until(f"{midnight}.title === '2026-01-01 00:00:00 UTC'")
    assert "9:00" in far_away.evaluate(f"{midnight}.textContent")
