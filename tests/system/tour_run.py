"""A tour through the console of a running system, in a browser: every step is checked, and leaves a picture.

    make tour TOUR_PICTURES=var/tour

Manager, driver with Spark and worker run as processes, and people log in. The last line counts the steps; exit code 1
when one failed, which tells what was on the page then.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tour_beginning import BEGINNING
from tour_deeds import DEEDS
from tour_pages import PAGES
from tour_visitor import CHROMIUM, Browser, LeftError, Visitor
from tour_ways import Step, Tour

from cep_cli.system.local_system import LocalSystem, Ports

STEPS = (*BEGINNING, *DEEDS, *PAGES)
PICTURES = Path("var") / "tour"
FAILED = (AssertionError, LeftError)
"""By these a step fails, and the tour continues."""


def take(tour: Tour, steps: Iterable[Step], pictures: Path) -> tuple[int, int]:
    """Every step was taken, also after one that failed, and its page is in `pictures`; tells how many, and how many
    failed."""
    count = failed = 0
    for count, step in enumerate(steps, 1):
        name = step.__name__.replace("_", " ")
        begun = time.monotonic()
        try:
            found = _taken(tour, step)
            told = f"{count:2} {name} ({time.monotonic() - begun:.1f} s): {' '.join(found.split())[:100]}"
            problem = ""
        except FAILED as error:
            problem = _why(error)
            told = f"{count:2} {name} FAILED after {time.monotonic() - begun:.1f} s: {problem}"
            told = f"{told}\n   on {_page(tour.visitor)}"
        say(told)
        try:
            tour.visitor.pictures(pictures, f"{count:02}-{name.replace(' ', '-')}")
        except FAILED as error:
            problem = problem or _why(error)
            say(f"   FAILED: no picture of it: {_why(error)}")
        failed += bool(problem)
    return count, failed


def _taken(tour: Tour, step: Step) -> str:
    """What the step found. Raises AssertionError and LeftError."""
    visitor = tour.visitor
    visitor.browser.problems.clear()
    found = step(tour)
    visitor.check(not visitor.browser.problems, f"a browser that does not complain: {visitor.browser.problems}")
    visitor.check(not (wide := visitor.sticking_out()), f"nothing that sticks out of its frame: {wide}")
    return found


def _why(error: Exception) -> str:
    return f"the page was left while it was asked ({error})" if isinstance(error, LeftError) else str(error)


def _page(visitor: Visitor) -> str:
    """What is on the page, if it can be told."""
    try:
        return visitor.page()
    except FAILED as error:
        return f"a page that tells nothing: {_why(error)}"


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is its output


def main() -> int:
    """The tour is over and the system has ended."""
    if CHROMIUM is None:
        say("tour: there is no Chromium on this machine")
        return 1
    pictures = Path(os.environ.get("TOUR_PICTURES") or PICTURES)
    pictures.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cep-tour-") as name:
        folder = Path(name)
        said: list[str] = []
        with LocalSystem(folder / "system", Ports.free(), say=said.append, login=True) as system:
            say(f"the system runs after {time.monotonic() - begun:.0f} s")
            password = re.findall(r"password  (\S+)", "\n".join(said))[0]
            browser = Browser(folder / "profile")
            try:
                visitor = Visitor(browser, system.client.url)
                count, failed = take(Tour(visitor, password, folder), STEPS, pictures)
            finally:
                browser.close()
    say(f"pictures in {pictures}, {time.monotonic() - begun:.0f} s")
    say(f"tour: steps={count} failed={failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
