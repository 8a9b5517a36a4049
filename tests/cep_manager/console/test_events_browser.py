"""The pages of event streams in a real browser: results are watched, events are sent. Skipped without Chromium."""

import io
import json
from collections.abc import Iterator

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import NEEDS_CHROMIUM, Browser
from manager_world import FakeView, World
from serving import serving

from cep_common.ids import SUPER_TENANT
from cep_manager.web.app import create_app

pytestmark = [pytest.mark.cluster, NEEDS_CHROMIUM]


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active()
    return FakeView(world)


@pytest.fixture
def address(view: FakeView) -> Iterator[str]:
    with serving(create_app(view, 100_000)) as address:
        yield address


def told(page: Browser, id_: str) -> str:
    return str(page.evaluate(f"document.getElementById('{id_}').textContent"))


def choose_file(page: Browser, name: str, contents: bytes) -> None:
    """The feed's field has a file of that name."""
    octets = f"Uint8Array.from({list(contents)})"
    page.evaluate(
        f"(() => {{ const chosen = new DataTransfer(); chosen.items.add(new File([{octets}], '{name}'));"
        "document.getElementById('feed-file').files = chosen.files })()"
    )


def test_results_are_watched_with_a_filter_until_the_end(chromium: Browser, address: str, view: FakeView) -> None:
    chromium.problems.clear()
    chromium.open(f"{address}/events/exported/KnockOns:1.0.0")
    chromium.until("document.getElementById('tail-told').textContent === 'that was all'")
    assert chromium.evaluate("document.querySelectorAll('#tail-rows tr').length") == 2
    assert chromium.evaluate("document.querySelector('#tail-rows td:nth-child(2)').textContent") == "<b>x</b>"
    time = chromium.evaluate("document.querySelector('#tail-rows time').outerHTML")
    assert 'datetime="2026-01-01T00:00:00.000Z"' in time
    assert 'title="2026-01-01 00:00:00 UTC"' in time
    chromium.evaluate("document.getElementById('tail-attribute').value = 'tailnum'")
    chromium.evaluate("document.getElementById('tail-value').value = 'N1'")
    chromium.evaluate("document.getElementById('tail-value').dispatchEvent(new Event('change'))")
    chromium.until("document.querySelectorAll('#tail-rows tr').length >= 4")
    wanted = view.tails[-1].wanted
    assert wanted is not None
    assert (wanted.attribute, wanted.operator, wanted.value) == ("tailnum", "eq", "N1")
    assert chromium.problems == []


def test_one_event_is_sent_as_its_stream_types_it(chromium: Browser, address: str, view: FakeView) -> None:
    chromium.problems.clear()
    chromium.open(f"{address}/events/imported/Arrivals:1.0.0")
    chromium.evaluate("document.querySelector('[data-name=tailnum]').value = 'N1'")
    chromium.evaluate("document.querySelector('[data-name=delay]').value = '12345678901234567'")
    chromium.evaluate("document.getElementById('field-time').value = '2026-01-01T00:00:00.250'")
    chromium.evaluate("document.querySelector('#single .primary').click()")
    chromium.until("document.getElementById('single-told').textContent.startsWith('Accepted by worker-1')")
    ((name, body, kind, _),) = view.sent
    assert (name, kind) == ("Arrivals:1.0.0", "application/x-ndjson")
    assert body == b'{"tailnum":"N1","delay":12345678901234567,"_timestamp":1767225600250}'
    assert chromium.problems == []


STAMPED = (("_timestamp", "long"), ("tailnum", "string"))


@pytest.fixture
def stamped(view: FakeView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stream has an attribute that is called as the time of its events."""
    streams = tuple(msgspec.structs.replace(one, attributes=STAMPED) for one in view.event_streams(SUPER_TENANT))
    monkeypatch.setattr(view, "event_streams", lambda _: streams)


@pytest.mark.usefixtures("stamped")
def test_an_attribute_called_as_the_time_is_sent_and_shown_in_its_place(
    chromium: Browser, address: str, view: FakeView
) -> None:
    chromium.problems.clear()
    chromium.open(f"{address}/events/imported/Arrivals:1.0.0")
    chromium.evaluate("document.getElementById('single-example').click()")
    now_ms = int(str(chromium.evaluate("document.querySelector('[data-name=_timestamp]').value")))
    assert now_ms > 1_700_000_000_000
    chromium.evaluate("document.querySelector('[data-name=_timestamp]').value = '5'")
    chromium.evaluate("document.querySelector('[data-name=tailnum]').value = 'N1'")
    chromium.evaluate("document.querySelector('#single .primary').click()")
    chromium.until("document.getElementById('single-told').textContent.startsWith('Accepted by worker-1')")
    ((_, body, _, _),) = view.sent
    assert body == b'{"_timestamp":5,"tailnum":"N1"}'
    chromium.open(f"{address}/events/exported/KnockOns:1.0.0")
    chromium.until("document.getElementById('tail-told').textContent === 'that was all'")
    heads = "[...document.querySelectorAll('.tail th')].map((one) => one.textContent).join()"
    assert chromium.evaluate(heads) == "_timestamp long,tailnum string"
    cells = "[...document.querySelector('#tail-rows tr').cells].map((one) => one.textContent).join()"
    assert "<b>x</b>" in str(chromium.evaluate(cells))
    assert chromium.evaluate("document.querySelector('#tail-rows tr').cells.length") == 2
    assert chromium.problems == []


def test_an_example_fits_the_stream(chromium: Browser, address: str, view: FakeView) -> None:
    chromium.open(f"{address}/events/imported/Arrivals:1.0.0")
    chromium.evaluate("document.getElementById('single-example').click()")
    chromium.evaluate("document.querySelector('#single .primary').click()")
    chromium.until("document.getElementById('single-told').textContent.startsWith('Accepted by worker-1')")
    ((_, body, _, _),) = view.sent
    event = json.loads(body)
    assert event["tailnum"].startswith("tailnum-")
    assert isinstance(event["delay"], int)


def test_a_file_is_fed_at_its_rate_and_a_refusal_ends_it_with_its_reason(
    chromium: Browser, address: str, view: FakeView
) -> None:
    chromium.open(f"{address}/events/imported/Arrivals:1.0.0")
    chromium.evaluate("document.getElementById('feed-rate').value = 100000")
    choose_file(chromium, "few.csv", b'tailnum,delay\n"N,1",5\nN2,\n')
    chromium.evaluate("document.getElementById('feed-start').click()")
    chromium.until("document.getElementById('feed-told').textContent.startsWith('Done')")
    assert told(chromium, "feed-told") == "Done: 2 of 2 events sent"
    assert (
        b"\n".join(body for _, body, _, _ in view.sent) == b'{"tailnum":"N,1","delay":5}\n{"tailnum":"N2","delay":null}'
    )
    view.sent.clear()
    press_twice = "(() => { const start = document.getElementById('feed-start'); start.click(); start.click();"
    assert chromium.evaluate(f"{press_twice} return start.disabled; }})()")  # from the first press on
    chromium.until("document.getElementById('feed-told').textContent.startsWith('Done')")
    assert sum(len(body.splitlines()) for _, body, _, _ in view.sent) == 2
    choose_file(chromium, "bad.ndjson", b'{"tailnum": "broken"}\n')
    chromium.evaluate("document.getElementById('feed-start').click()")
    chromium.until("document.getElementById('feed-told').textContent.startsWith('After 0 events')")
    assert told(chromium, "feed-told") == "After 0 events: events do not fit: delay must be a number"


def test_a_parquet_file_is_fed_with_every_digit_and_one_that_is_none_is_refused(
    chromium: Browser, address: str, view: FakeView
) -> None:
    held = io.BytesIO()
    pq.write_table(pa.table({"tailnum": ["N1", "N2"], "delay": [2**62 + 1, None]}), held)
    chromium.open(f"{address}/events/imported/Arrivals:1.0.0")
    chromium.evaluate("document.getElementById('feed-rate').value = 100000")
    choose_file(chromium, "few.parquet", held.getvalue())
    chromium.evaluate("document.getElementById('feed-start').click()")
    chromium.until("document.getElementById('feed-told').textContent.startsWith('Done')")
    sent = b"\n".join(body for _, body, _, _ in view.sent)
    assert sent == b'{"tailnum":"N1","delay":4611686018427387905}\n{"tailnum":"N2","delay":null}'
    choose_file(chromium, "none.parquet", b"no such file")
    chromium.evaluate("document.getElementById('feed-start').click()")
    chromium.until("document.getElementById('feed-told').textContent.startsWith('none.parquet cannot be read')")
    chromium.evaluate("window.fetch = () => Promise.reject(new TypeError('no network'))")
    chromium.evaluate("document.getElementById('feed-start').click()")
    reason = "no response from the manager, which reads Parquet files."
    chromium.until(f"document.getElementById('feed-told').textContent === 'none.parquet cannot be read: {reason}'")
    assert not chromium.evaluate("document.getElementById('feed-start').disabled")
