"""Somebody at a browser: reads what a page shows, clicks, types, and waits for what should come."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cep_manager"))

from browser import CHROMIUM, Browser, LeftError

__all__ = ["CHROMIUM", "Browser", "LeftError", "UnmetError", "Visitor", "quoted"]

SCHEMES = ("light", "dark")
WIDTH, HEIGHT = 1360, 900
SHOWN = 900
"""Characters of a page that a failed step tells."""


class UnmetError(AssertionError):
    """The page did not come to show what it should; the text says what that was."""


@dataclass(slots=True)
class Visitor:
    """Uses the console at `url`. Elements are named by CSS selectors, and used as a person would: what is not to be
    seen, is covered or switched off cannot be clicked."""

    browser: Browser
    url: str

    def __post_init__(self) -> None:
        self.browser.call(
            "Emulation.setDeviceMetricsOverride", width=WIDTH, height=HEIGHT, deviceScaleFactor=1, mobile=False
        )

    def go(self, path: str) -> None:
        """The page at `path` is there, and nothing of it is still being loaded."""
        self.browser.open(f"{self.url}{path}")
        self.settled()

    def settled(self) -> None:
        """The page that is there has all that it loads by itself."""
        self.until(
            "document.readyState === 'complete' && !document.querySelector('.loading')", "a page that has been loaded"
        )

    def follow(self, text: str, within: str = "nav.side", to: str = "h1") -> None:
        """The link called `text` was clicked, and the page that it leads to is there."""
        before = self.browser.evaluate("performance.timeOrigin")
        self.click(f"{within} a", text)
        self.until(
            f"performance.timeOrigin !== {before} && document.querySelector({quoted(to)})", f"where {text} leads"
        )
        self.settled()

    def click(self, selector: str, text: str = "", within_s: float = 15.0) -> None:
        """The element (where `text` is given: the one that bears it) was clicked, as soon as it could be."""
        wanted = f"{selector} {quoted(text) if text else ''}".strip()
        place = self.until(_TARGET.format(selector=quoted(selector), text=quoted(text)), f"{wanted} to click", within_s)
        for kind, buttons in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            self.browser.call(
                "Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], clickCount=1,
                buttons=buttons, button="none" if kind == "mouseMoved" else "left",
            )  # fmt: skip

    def send(self, selector: str, text: str = "", to: str = "h1") -> None:
        """As `click`, of what leads to another page, which is there then."""
        before = self.browser.evaluate("performance.timeOrigin")
        self.click(selector, text)
        self.until(
            f"performance.timeOrigin !== {before} && document.querySelector({quoted(to)})", f"the page after {selector}"
        )
        self.settled()

    def write(self, selector: str, text: str) -> None:
        """The field has `text` in place of what it had."""
        self.click(selector)
        self.browser.press("a", 65, control=True)
        self.browser.type(text)

    def tab(self, to: str) -> None:
        """The Tab key led to the element."""
        self.browser.press("Tab", 9)
        self.until(f"document.activeElement.matches({quoted(to)})", f"the focus at {to} after Tab")

    def enter(self) -> None:
        self.browser.press("Enter", 13, "\r")

    def choose_file(self, selector: str, file: Path) -> None:
        """The field has the file."""
        self.until(f"document.querySelector({quoted(selector)})", selector)
        found = self.browser.call("Runtime.evaluate", expression=f"document.querySelector({quoted(selector)})")
        self.browser.call("DOM.setFileInputFiles", files=[str(file)], objectId=found["result"]["objectId"])

    def read(self, selector: str) -> str:
        """What stands in the element; empty when there is none."""
        return str(self.browser.evaluate(f"document.querySelector({quoted(selector)})?.textContent.trim() ?? ''"))

    def number(self, selector: str) -> int:
        """The whole number in the element: 1 234 is 1234."""
        text = self.read(selector)
        digits = "".join(one for one in text if one.isdigit())
        self.check(bool(digits), f"a number in {selector}, not {text!r}")
        return int(digits)

    def until(self, condition: str, what: str, within_s: float = 15.0) -> Any:
        """The value of the JavaScript expression as soon as it is true. Raises UnmetError, that `what` was missed."""
        try:
            return self.browser.until(f"((found) => found instanceof Node || found)({condition})", within_s)
        except AssertionError as error:
            if "not within" not in str(error):
                raise
            raise UnmetError(f"not within {within_s:.0f} s: {what}") from None

    def sees(self, selector: str, text: str, within_s: float = 15.0) -> None:
        """One of the elements comes to contain `text`."""
        self.until(
            f"[...document.querySelectorAll({quoted(selector)})]"
            f".some((one) => one.textContent.includes({quoted(text)}))", f"{text!r} in {selector}", within_s,
        )  # fmt: skip

    def check(self, holds: bool, what: str) -> None:
        """Raises UnmetError when `what` does not hold."""
        if not holds:
            raise UnmetError(what)

    def refused(self, status: int) -> None:
        """That a call was answered with `status` is as it should be; the browser tells of each."""
        problems = self.browser.problems
        problems[:] = [one for one in problems if f"responded with a status of {status} " not in one]

    def sticking_out(self) -> list[str]:
        """What reaches beyond the frame that it stands in, where it cannot be read."""
        wide = "[...document.querySelectorAll('main .card')].filter((one) => one.scrollWidth > one.clientWidth + 1)"
        found = self.browser.evaluate(f"{wide}.map((one) => one.textContent.trim().slice(0, 80))")
        return [str(one) for one in found]

    def pictures(self, folder: Path, name: str) -> None:
        """The page stands in NAME.png, and in NAME-dark.png for a reader who likes it dark."""
        for scheme in SCHEMES:
            with self.scheme(scheme):
                self.browser.picture(folder / f"{name}{'-dark' if scheme == 'dark' else ''}.png")

    @contextmanager
    def scheme(self, scheme: str) -> Iterator[None]:
        """The reader likes `scheme` meanwhile."""
        name = "prefers-color-scheme"
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": name, "value": scheme}])
        yield
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": name, "value": "light"}])

    def page(self) -> str:
        """What is on the page: its address and the beginning of its text."""
        text = self.browser.evaluate("(document.querySelector('main') ?? document.body).innerText")
        address = self.browser.evaluate("location.pathname + location.search")
        return f"{address}: {' '.join(str(text).split())[:SHOWN]}"


def quoted(text: str) -> str:
    """`text` as a JavaScript string."""
    return json.dumps(text)


_TARGET = """(() => {{
  const found = [...document.querySelectorAll({selector})].find((one) =>
    (!{text} || one.textContent.trim() === {text}) && one.checkVisibility() && !one.disabled
    && one.ariaDisabled !== "true");
  if (!found) return null;
  found.scrollIntoView({{ block: "center", inline: "nearest", behavior: "instant" }});
  const [{{ left, top, width, height }}] = found.getClientRects();
  const [x, y] = [left + width / 2, top + height / 2];
  return found.contains(document.elementFromPoint(x, y)) ? {{ x, y }} : null;
}})()"""
