"""The pages of logs and configurations in a real browser. Skipped without Chromium."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from accessibility import SCHEMES, grave_findings, set_scheme
from browser import NEEDS_CHROMIUM, Browser
from insight_world import Processes
from serving import serving

from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

TASK = quote("task:Storms[-1234]:1:0")
PROBLEMS = "document.getElementById('log-problems').textContent"
HOSTILE = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"


@pytest.fixture
def processes() -> Processes:
    return Processes()


@pytest.fixture
def address(processes: Processes) -> Iterator[str]:
    with serving(create_app(processes.as_view(), 100_000)) as address:
        yield address


def texts(page: Browser) -> list[str]:
    lines = "[...document.querySelectorAll('.log-line .log-text')]"
    return list(page.evaluate(f"{lines}.map((one) => one.textContent.replace('cep_test', ''))"))


def choose(page: Browser, field: str, value: str) -> None:
    """The filter's field has that value, as if somebody had set it."""
    page.evaluate(
        f"(() => {{ const field = document.getElementById('log-{field}'); field.value = {value!r};"
        "field.dispatchEvent(new Event('input')); field.dispatchEvent(new Event('change')) })()"
    )


def test_a_log_is_followed_paused_and_searched_and_its_lines_stay_text(
    chromium: Browser, address: str, processes: Processes
) -> None:
    chromium.problems.clear()
    chromium.open(f"{address}/logs?process={TASK}")
    chromium.until("document.querySelectorAll('.log-line').length === 2")
    processes.log("run-3", HOSTILE, logging.ERROR, ValueError(HOSTILE))
    chromium.until("document.querySelectorAll('.log-line').length === 3")
    assert texts(chromium) == ["task works", "task sends", HOSTILE]
    assert HOSTILE in chromium.evaluate("document.querySelector('.log-line pre').textContent")
    assert chromium.evaluate("document.querySelectorAll('#log img, #log script').length") == 0
    chromium.evaluate("document.getElementById('log-pause').click()")
    processes.log("run-3", "while nobody looks")
    chromium.evaluate("document.getElementById('log-pause').click()")
    chromium.until("document.querySelectorAll('.log-line').length === 4")
    choose(chromium, "contains", "TASK")
    chromium.until("document.querySelectorAll('.log-line mark').length === 2")
    assert texts(chromium) == ["task works", "task sends"]
    choose(chromium, "level", "ERROR")
    chromium.until("!document.getElementById('log-empty').hidden")
    assert "level=ERROR" in chromium.evaluate("location.search")
    assert "broken" not in chromium.evaluate("document.title")
    assert chromium.problems == []


def test_a_log_is_paged_backwards_to_its_beginning(chromium: Browser, address: str, processes: Processes) -> None:
    for number in range(250):
        processes.log("run-3", f"record {number}")
    chromium.open(f"{address}/logs?process={TASK}")
    chromium.until("document.querySelectorAll('.log-line').length === 200")
    earlier = "document.querySelector('#log-older button')"
    chromium.evaluate(f"{earlier}.click(); {earlier}.click()")
    chromium.until("document.querySelectorAll('.log-line').length === 252")
    assert texts(chromium) == ["task works", "task sends", *(f"record {number}" for number in range(250))]
    assert chromium.evaluate("document.getElementById('log-older').hidden")
    asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('before=')).length"
    assert chromium.evaluate(asked) == 1


def test_all_that_has_to_do_with_a_plan_is_followed_and_who_is_silent_is_named(
    chromium: Browser, address: str, processes: Processes
) -> None:
    processes.silent.add("run-1")
    chromium.open(f"{address}/logs?plan=Storms")
    chromium.until("document.querySelectorAll('.log-line').length === 3")
    chromium.until(
        "document.getElementById('log-problems').textContent.includes('driver driver-1 on 10.0.0.1: did not answer')"
    )
    processes.silent.clear()
    processes.log("run-1", "topology ended: topology=Storms[-1234]")
    processes.log("run-1", "topology ended: topology=Other[-1234]")
    chromium.until("document.querySelectorAll('.log-line').length === 5")
    chromium.until(f"{PROBLEMS} === ''")
    assert not any("Other" in text for text in texts(chromium))


def test_a_process_that_dies_while_its_log_is_followed_is_told_and_taken_up_again(
    chromium: Browser, address: str, processes: Processes
) -> None:
    chromium.open(f"{address}/logs?process=worker:worker-1")
    chromium.until("document.querySelectorAll('.log-line').length === 1")
    processes.silent.add("run-2")
    chromium.until("document.getElementById('log-told').textContent === 'No response'")
    assert "worker worker-1 (process 300 on 10.0.0.3) did not answer" in chromium.evaluate(PROBLEMS)
    processes.start_worker_again()
    chromium.until("[...document.querySelectorAll('.log-break')].some((one) => one.textContent.includes('restarted'))")
    chromium.until("document.getElementById('log-told').textContent === 'Following'")


def test_processes_and_keys_are_found_by_words(chromium: Browser, address: str) -> None:
    chromium.problems.clear()
    shown = "[...document.querySelectorAll('{} [data-words]')].filter((one) => !one.hidden).length"
    for page, region, words in (("logs", "#processes", "storms task"), ("configuration", "#settings", "x.yaml")):
        chromium.open(f"{address}/{page}")
        chromium.evaluate(
            f"(() => {{ const field = document.getElementById('filter'); field.value = {words!r};"
            "field.dispatchEvent(new Event('input')) })()"
        )
        chromium.until(f"{shown.format(region)} === 1")
    assert chromium.problems == []


def test_a_search_for_processes_holds_while_their_list_is_renewed(chromium: Browser, address: str) -> None:
    chromium.open(f"{address}/logs")
    chromium.evaluate(
        "(() => { const field = document.getElementById('filter'); field.value = 'storms task';"
        "field.dispatchEvent(new Event('input')) })()"
    )
    renew = (
        "(async () => { const region = document.getElementById('processes');"
        "const made = document.createElement('template');"
        "const [{ morph }, answer] = await Promise.all([import('/static/morph.js'), fetch(region.dataset.refresh)]);"
        "made.innerHTML = (await answer.text()).replace(%s, %s); morph(region, made.content); })()"
    )
    shown = "[...document.querySelectorAll('#processes [data-words]')].filter((row) => !row.hidden).length"
    assert chromium.until(shown) == 1
    chromium.evaluate(renew % ("''", "''"))
    assert chromium.evaluate(shown) == 1
    chromium.evaluate(renew % ("'all processes'", "'all storms task processes'"))  # a row has other words now
    assert chromium.evaluate(shown) == 2


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_pages_can_be_used_by_everybody(chromium: Browser, address: str, processes: Processes, scheme: str) -> None:
    processes.log("run-3", "task warns", logging.WARNING)
    processes.log("run-3", "task failed", logging.ERROR, ValueError("x"))
    processes.silent.add("run-1")
    set_scheme(chromium, scheme)
    chromium.open(f"{address}/logs?plan=Storms&contains=task")
    chromium.until("document.querySelectorAll('.log-line mark').length > 0")
    assert grave_findings(chromium) == []
    chromium.open(f"{address}/configuration?process=worker:worker-1")
    assert grave_findings(chromium) == []
