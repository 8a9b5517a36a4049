"""The editor in a real browser: it colours, completes, marks mistakes, previews and tries out.

Skipped without Chromium."""

import json
from collections.abc import Iterator
from typing import ClassVar

import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import FLIGHTS, FakeView, World, plan
from serving import serving

from cep_common.clock import SystemClock
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.tasks import ComponentState
from cep_manager.authoring.compiler import compile_plan, validate_plan
from cep_manager.authoring.model import EditedPart, EditedStream, EditPreview, PlanTrial, Preview, Validation
from cep_manager.authoring.preview import preview_plan
from cep_manager.authoring.trials import Trials
from cep_manager.config import TrialConfig
from cep_manager.web.app import create_app
from siddhi.scripts.language import ScriptPolicy
from siddhi.trial.messages import TrialResult

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]

SCRIPTS = ScriptPolicy(frozenset(), "script.python: true")
TEXT = FLIGHTS.read_text(encoding="utf-8")
EDITOR = "document.getElementById('editor').shadowRoot"
CONTENT = f"{EDITOR}.querySelector('.cm-content')"
TRIAL_S = 90
"""What a trial may take: the engine is loaded first, which takes long beside other tests."""
HOSTILE = "<img src=x onerror=document.title=1>"


class AuthoringView(FakeView):
    """A view that knows the language for true."""

    trials = Trials(TrialConfig(timeout_ms=TRIAL_S * 1_000), SCRIPTS, SystemClock())
    edits: ClassVar[list[str]] = []

    def validate(self, text: str) -> Validation:
        return validate_plan(text, SCRIPTS)

    def preview(self, tenant: int, text: str) -> Preview:
        return preview_plan(tenant, text, SCRIPTS)

    def preview_edit(self, key: PlanKey, text: str) -> EditPreview:
        self.edits.append(text)
        held = ComponentState("query", "late", rows=1_234, groups=5)
        parts = (
            EditedPart("lateness", "query", HOSTILE, kept=True, reason="", held=held),
            EditedPart("storms", "query", "storms", kept=False, reason="its definition changed", held=None),
        )
        streams = (EditedStream("Departures", 42, "mapped", "by name; null: gate"),)
        return EditPreview(key.plan, 1, 1, parts, streams, "the rest is unknown")

    def try_plan(self, trial: PlanTrial) -> TrialResult:
        return self.trials.run(trial)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    world = World()
    world.put(plan(key=PlanKey(SUPER_TENANT, "KnockOnDelays"), text=TEXT, compiled=compile_plan(TEXT, SCRIPTS)))
    with serving(create_app(AuthoringView(world), 1_000_000)) as address:
        yield address


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Browser]:
    chromium.problems.clear()
    chromium.open(f"{address}/deploy?plan=KnockOnDelays")
    chromium.until("document.getElementById('verdict').textContent")
    yield chromium
    assert chromium.problems == []


def write(page: Browser, text: str) -> None:
    """`text` is pasted over all that the editor holds."""
    page.evaluate(f"{CONTENT}.focus()")
    page.press("a", 65, control=True)
    page.evaluate(
        f"(() => {{ const clipboardData = new DataTransfer(); clipboardData.setData('text/plain', {json.dumps(text)});"
        f"{CONTENT}.dispatchEvent(new ClipboardEvent('paste', {{ clipboardData, bubbles: true }})) }})()"
    )


def test_the_editor_takes_the_fields_place_in_colours_of_the_page(page: Browser) -> None:
    assert page.evaluate("document.getElementById('text').hidden")
    assert page.evaluate(f"{CONTENT}.getAttribute('aria-label')") == "Execution plan in SiddhiQL"
    annotation = f"[...{CONTENT}.querySelectorAll('.cm-line span')].find((one) => one.textContent === '@Plan:name')"
    assert page.evaluate(f"getComputedStyle({annotation}).color") == "rgb(138, 59, 107)"
    assert page.evaluate("document.getElementById('verdict').textContent") == "KnockOnDelays can be deployed"


def test_a_mistake_is_marked_at_its_column_and_gone_when_it_is_mended(page: Browser) -> None:
    write(page, TEXT.replace("from Departures[dep_delay > 60]", "from Departures['é𝄞' == carrier and dep_dela > 60]"))
    page.until("document.getElementById('verdict').textContent === '1 problem'")
    assert page.until(f"{EDITOR}.querySelector('.cm-lintRange-error')?.textContent") == "dep_dela"
    assert "did you mean 'dep_delay'?" in page.evaluate("document.getElementById('panel-problems').textContent")
    page.evaluate("document.querySelector('#panel-problems .go').click()")
    page.type("dep_delay")
    page.until("document.getElementById('verdict').textContent.startsWith('KnockOnDelays can be deployed')")


def test_completion_offers_windows_streams_and_attributes_with_their_documentation(page: Browser) -> None:
    offered = f"[...{EDITOR}.querySelectorAll('.cm-completionLabel')].map((one) => one.textContent)"
    page.evaluate(f"{CONTENT}.focus()")
    page.press("End", 35, control=True)
    page.type("\nfrom Dep")
    assert "Departures" in page.until(f"{offered}.length && {offered}")
    page.press("Escape", 27)
    page.type("artures#window.timeB")
    assert page.until(f"{offered}.length && {offered}")[0] == "timeBatch"
    assert "timeBatch(" in page.until(f"{EDITOR}.querySelector('.cm-completionInfo')?.textContent")
    page.press("Escape", 27)
    page.type("atch(1 min)\nselect e.x, Departures.dist")
    assert page.until(f"{offered}.includes('distance') && {offered}") == ["distance"]


def test_the_flow_and_the_query_plan_are_previewed_and_changes_shown(page: Browser) -> None:
    write(page, TEXT.replace("parallel='2'", "parallel='3'"))
    page.evaluate("document.getElementById('tab-flow').click()")
    page.until("document.querySelectorAll('#flow [data-node^=\"lateness#\"]').length === 3")
    page.evaluate("document.getElementById('tab-query-plan').click()")
    page.until("document.getElementById('panel-query-plan').textContent.includes('lateness (3 instances)')")
    page.evaluate("document.getElementById('tab-operators').click()")
    page.until("document.getElementById('panel-operators').textContent.includes('SlowOperator works event by event')")
    page.evaluate("document.getElementById('tab-changes').click()")
    page.until("document.querySelector('.merge')?.shadowRoot.querySelectorAll('.cm-changedLine').length === 2")


def test_before_deploying_it_is_told_what_is_kept_and_what_reset(page: Browser) -> None:
    edited = TEXT.replace("parallel='2'", "parallel='3'")
    write(page, edited)
    page.evaluate("document.getElementById('tab-changes').click()")
    page.until("document.querySelector('.edit-state .verdict')?.textContent === 'State: 1 kept, 1 reset'")
    rows = page.evaluate("[...document.querySelectorAll('.edit-state tr')].map((row) => row.innerText.split('\\t'))")
    assert rows == [
        ["State", "", "Current content", "Why"],
        [f"query {HOSTILE}", "kept", "1,234 rows, 5 groups", ""],
        ["query storms", "reset", "–", "its definition changed"],
        ["Stream", "Waiting accepted events", "What happens to them", "How"],
        ["Departures", "42", "continue in their new form", "by name; null: gate"],
    ]
    assert page.evaluate("document.querySelector('.edit-state').lastChild.textContent") == "the rest is unknown."
    assert AuthoringView.edits[-1] == edited
    write(page, edited.replace("define", "defin"))
    page.until("document.querySelector('.edit-state')?.textContent.startsWith('The effect on the state is shown')")


def test_all_of_a_plan_that_is_not_deployed_is_new(page: Browser, address: str) -> None:
    page.open(f"{address}/deploy")
    page.until("document.getElementById('verdict').textContent")
    write(page, TEXT.replace("KnockOnDelays", "Fresh"))
    page.until("document.getElementById('verdict').textContent.startsWith('Fresh can be deployed')")
    page.evaluate("document.getElementById('tab-changes').click()")
    page.until("document.getElementById('panel-changes').textContent.startsWith('No plan named Fresh is deployed')")


def test_text_over_several_lines_is_typed_over_without_a_complaint(page: Browser) -> None:
    page.evaluate(f"{CONTENT}.focus()")
    page.press("a", 65, control=True)
    page.type("x")
    page.until(f"{CONTENT}.textContent === 'x'")


def test_tabs_are_moved_by_keyboard(page: Browser) -> None:
    page.evaluate("document.getElementById('tab-problems').focus()")
    page.press("ArrowRight", 39)
    assert page.evaluate("document.activeElement.id") == "tab-try"
    assert not page.evaluate("document.getElementById('panel-try').hidden")
    assert page.evaluate("document.getElementById('panel-problems').hidden")


def test_events_may_have_an_attribute_called_as_their_time(page: Browser) -> None:
    selection = "select _timestamp, eventTimestamp() as at"
    write(page, f"@Plan:name('T') define stream S (_timestamp long); from S {selection} insert into T;")
    page.until("document.getElementById('verdict').textContent.startsWith('T can be deployed')")
    page.evaluate("document.getElementById('tab-try').click()")
    page.evaluate('document.getElementById(\'try-events\').value = \'{"stream": "S", "_timestamp": 86400005}\'')
    page.evaluate("document.getElementById('try-run').click()")
    page.until("document.getElementById('try-told').textContent.startsWith('1 events ran through')", within_s=TRIAL_S)
    results = str(page.evaluate("document.getElementById('try-results').textContent"))
    assert results.count("86400005") + results.count("86,400,005") >= 2


def test_a_plan_is_tried_out_and_what_users_write_stays_text(page: Browser) -> None:
    text = "@Plan:name('T') define stream S (a string); from every x=S -> y=S select x.a as a insert into T;"
    write(page, text)
    page.until("document.getElementById('verdict').textContent.startsWith('T can be deployed')")
    page.evaluate("document.getElementById('tab-try').click()")
    assert page.evaluate("document.getElementById('try-events').value.split('\\n').length") == 4
    events = '{"stream": "S", "data": ["%s"]}\\n{"stream": "S", "a": "b"}' % HOSTILE  # noqa: UP031 - braces
    page.evaluate(f"document.getElementById('try-events').value = '{events}'")
    page.evaluate("document.getElementById('try-run').click()")
    page.until("document.getElementById('try-told').textContent.startsWith('2 events ran through')", within_s=TRIAL_S)
    results = page.evaluate("document.getElementById('try-results').textContent")
    assert "Stream T" in results
    assert HOSTILE in results
    assert "Partial matches" in results
    assert page.evaluate("document.querySelectorAll('#try-results img').length") == 0
    assert page.evaluate("document.title") != "1"
    page.evaluate("document.getElementById('try-events').value = '{'; document.getElementById('try-run').click()")
    page.until("document.getElementById('try-told').textContent.startsWith('Line 1 is not a JSON')")
