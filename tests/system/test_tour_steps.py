"""The tour continues after a step that failed, whatever it failed by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tour_run import take
from tour_visitor import LeftError, UnmetError, Visitor
from tour_ways import Tour


class LeavingBrowser:
    """A browser whose page is left just while it is asked."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.left = False

    def call(self, method: str, **arguments: Any) -> Any:
        del method, arguments

    def evaluate(self, script: str) -> Any:
        if self.left:
            raise LeftError("Runtime.evaluate")
        return [] if "scrollWidth" in script else "/plans"

    def picture(self, path: Path) -> None:
        if self.left:
            raise LeftError("Page.captureScreenshot")
        path.touch()


@pytest.fixture
def tour(tmp_path: Path) -> Tour:
    browser: Any = LeavingBrowser()
    return Tour(Visitor(browser, "http://localhost"), "", tmp_path)


def arrives(tour: Tour) -> str:
    tour.visitor.browser.left = False  # type: ignore[attr-defined]
    return "there"


def misses_something(tour: Tour) -> str:
    raise UnmetError(f"not within 1 s: a link; on {tour.visitor.page()}")


def leaves_the_page(tour: Tour) -> str:
    tour.visitor.browser.left = True  # type: ignore[attr-defined]
    return tour.visitor.page()


def makes_the_browser_complain(tour: Tour) -> str:
    tour.visitor.browser.problems.append("a script has failed")
    return "there"


def test_a_page_that_is_left_while_it_is_asked_fails_its_step_alone(
    tour: Tour, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = (arrives, misses_something, leaves_the_page, arrives, makes_the_browser_complain)
    assert take(tour, steps, tmp_path) == (5, 3)
    said = capsys.readouterr().out
    assert "2 misses something FAILED after 0.0 s: not within 1 s: a link" in said
    assert (
        "3 leaves the page FAILED after 0.0 s: the page was left while it was asked (Runtime.evaluate)\n"
        "   on a page that tells nothing: the page was left while it was asked (Runtime.evaluate)"
    ) in said
    assert "no picture of it: the page was left while it was asked (Page.captureScreenshot)" in said
    assert "5 makes the browser complain FAILED after 0.0 s: a browser that does not complain" in said
