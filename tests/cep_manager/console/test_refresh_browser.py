"""Regions of pages that are kept up to date, in a real browser, while the manager answers badly. Skipped without
Chromium."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import FakeView, World
from serving import serving

from cep_manager.monitoring.cluster_model import Overview
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

PULSE = "document.getElementById('pulse').textContent"
ROW = "document.getElementById('row-Storms').textContent"
BREAKS_OFF = """(() => {
  const real = window.fetch;
  window.fetch = (address, options) => {
    if (!String(address).includes('%s')) {
      return real(address, options);
    }
    window.fetch = real;
    const body = new ReadableStream({ start: (stream) => stream.error(new TypeError('it broke off')) });
    return Promise.resolve(new Response(body, { headers: { 'Content-Type': 'text/html' } }));
  };
})()"""
"""The next answer from an address with that in it breaks off."""


class SlowView(FakeView):
    """A view of a manager that can hang."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.answers = threading.Event()
        self.answers.set()

    def overview(self) -> Overview:
        self.answers.wait(30)
        return super().overview()


@pytest.fixture
def view() -> Iterator[SlowView]:
    world = World()
    world.active(events=1_000)
    made = SlowView(world)
    yield made
    made.broadcaster.close()


@pytest.fixture
def address(view: SlowView) -> Iterator[str]:
    with serving(create_app(view, 10_000)) as address:
        yield address
        view.answers.set()


@contextmanager
def on_every_page(page: Browser, script: str) -> Iterator[None]:
    """`script` runs before those of each page that is opened."""
    added = page.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    yield
    page.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added)


def test_a_region_goes_on_after_an_answer_that_breaks_off(chromium: Browser, address: str, view: SlowView) -> None:
    chromium.open(f"{address}/plans")
    chromium.evaluate(BREAKS_OFF % "/fragments/plans")
    chromium.until(f"{PULSE}.startsWith('The manager\\'s answer could not be read; this page shows data from ')")
    before = chromium.evaluate(ROW)
    view.world.tick(1_000)
    chromium.until(f"{ROW} !== {json.dumps(before)} && {PULSE} === ''")


def test_the_graph_is_drawn_although_its_first_answer_broke_off(
    chromium: Browser, address: str, view: SlowView
) -> None:
    view.broadcaster.close()  # the page has to ask
    with on_every_page(chromium, BREAKS_OFF % "/topology"):
        chromium.open(f"{address}/plans/Storms")
        chromium.until("document.querySelectorAll('#graph [data-node]').length > 0")


def test_a_manager_that_hangs_is_told_and_one_that_answers_again_is_shown(
    chromium: Browser, address: str, view: SlowView
) -> None:
    chromium.open(f"{address}/plans")
    chromium.evaluate(
        "(() => { const real = AbortSignal.timeout.bind(AbortSignal); AbortSignal.timeout = () => real(800); })()"
    )
    view.answers.clear()
    chromium.until(f"{PULSE}.startsWith('No response from the manager')")
    assert "active" in chromium.evaluate(ROW)
    view.answers.set()
    chromium.until(f"{PULSE} === ''")


def test_a_failure_of_the_manager_leaves_what_was_there(chromium: Browser, address: str, view: SlowView) -> None:
    chromium.open(f"{address}/plans")
    view.failure = RuntimeError("nobody expected this")
    chromium.until(f"{PULSE}.startsWith('The manager failed (its log says more); this page shows data from ')")
    assert "active" in chromium.evaluate(ROW)
    assert "internal" not in chromium.evaluate("document.querySelector('[data-refresh]').textContent")
    view.failure = None
    chromium.until(f"{PULSE} === ''")
