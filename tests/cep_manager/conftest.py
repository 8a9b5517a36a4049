"""What tests in a browser share: one Chromium for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from browser import Browser


@pytest.fixture(scope="session")
def one_chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser; tests that ask for it are skipped where none is installed."""
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture
def chromium(one_chromium: Browser) -> Iterator[Browser]:
    """The browser, for one test: the page that it leaves would continue asking a server that has ended, and a reader's
    likings would be those of the next."""
    yield one_chromium
    one_chromium.open("about:blank")
    one_chromium.call("Emulation.setEmulatedMedia", features=[])
    one_chromium.problems.clear()
