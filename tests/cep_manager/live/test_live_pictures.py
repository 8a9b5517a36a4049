"""Pictures that are sent as they change: one is made for all who watch, and one who missed something gets it whole."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests
from flask.testing import FlaskClient
from free_ports import free_port
from hypothesis import given, settings
from hypothesis import strategies as st
from manager_world import KEY, FakeView, World, driver, task, topology
from random_examples import examples

from cep_common.security.config import ServerSecurity
from cep_common.web.server import WebServer
from cep_manager.errors import StreamsBusyError, UnknownPlanError
from cep_manager.live import broadcaster as module
from cep_manager.live.broadcaster import Broadcaster
from cep_manager.live.merge_patch import merge_patch, tells_something
from cep_manager.live.plan_view import LivePlanView
from cep_manager.web.app import create_app

WAIT_S = 10.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.01)


class Counter:
    """A picture that a test changes, and how often it was looked at."""

    def __init__(self) -> None:
        self.picture: dict[str, Any] = {"rate": 1, "since_ms": 0, "nodes": {"a": 1}}
        self.looks = 0
        self.failure: Exception | None = None

    def look(self) -> dict[str, Any]:
        self.looks += 1
        if self.failure is not None:
            raise self.failure
        return dict(self.picture, since_ms=self.looks)


@pytest.fixture
def sender() -> Iterator[Broadcaster]:
    made = Broadcaster(3)
    yield made
    made.close()


def merged(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def without_nulls(value: Any) -> Any:
    """Tables lack what is null in them; lists are as they were."""
    if not isinstance(value, dict):
        return value
    return {name: without_nulls(member) for name, member in value.items() if member is not None}


VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.lists(st.none() | st.integers(), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@pytest.mark.thorough
@settings(max_examples=examples(100), deadline=None)
@given(TABLES, TABLES)
def test_a_picture_with_its_changes_is_the_next_picture_but_for_what_is_null(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert without_nulls(merged(before, merge_patch(before, after))) == without_nulls(after)


def test_that_only_time_goes_by_is_nothing_to_tell() -> None:
    before = {"status": {"since_ms": 1, "state": "active"}, "workers": {"w": {"silent_ms": 4}}}
    after = {"status": {"since_ms": 2, "state": "active"}, "workers": {"w": {"silent_ms": 900}}}
    assert not tells_something(merge_patch(before, after))
    after["status"]["state"] = "failed"
    assert merge_patch(before, after)["status"] == {"since_ms": 2, "state": "failed"}
    assert tells_something(merge_patch(before, after))


def test_the_whole_comes_first_and_then_what_changes(sender: Broadcaster) -> None:
    seen = Counter()
    watch = sender.watch("topic", seen.look)
    first = watch.take(WAIT_S)
    assert first is not None
    assert (first.event, json.loads(first.data)["rate"]) == ("picture", 1)
    assert watch.take(0.05) is None  # only time has gone by
    seen.picture = {"rate": 2, "nodes": {}}
    change = watch.take(WAIT_S)
    assert change is not None
    told = json.loads(change.data)
    assert (change.event, told["rate"], told["nodes"]) == ("change", 2, {"a": None})
    watch.close()


def test_whoever_missed_a_change_gets_the_whole_again(sender: Broadcaster) -> None:
    seen = Counter()
    slow, quick_one = sender.watch("topic", seen.look), sender.watch("topic", seen.look)
    slow.take(WAIT_S)
    quick_one.take(WAIT_S)
    for rate in (2, 3):
        seen.picture = {"rate": rate}
        change = quick_one.take(WAIT_S)
        assert change is not None
        assert (change.event, json.loads(change.data)["rate"]) == ("change", rate)
    late = slow.take(WAIT_S)
    assert late is not None
    assert (late.event, json.loads(late.data)["rate"]) == ("picture", 3)
    slow.close()
    quick_one.close()


def test_a_picture_is_made_once_however_many_watch_it(sender: Broadcaster) -> None:
    first, others = Counter(), Counter()
    watches = [sender.watch("topic", first.look), *(sender.watch("topic", others.look) for _ in range(2))]
    watches[0].take(WAIT_S)
    while first.looks < 5:
        first.picture = {"rate": first.looks}
        watches[0].take(WAIT_S)
    assert others.looks == 2  # so that those who come see at once that there is something
    for watch in watches:
        watch.close()


def test_only_so_many_may_watch_and_one_who_leaves_makes_room(sender: Broadcaster) -> None:
    watches = [sender.watch(name, Counter().look) for name in "abc"]
    with pytest.raises(StreamsBusyError) as caught:
        sender.watch("a", Counter().look)
    assert caught.value.details["config"] == "live.at_once"
    watches[0].close()
    watches[0].close()  # twice is once
    sender.watch("a", Counter().look).close()
    for watch in watches[1:]:
        watch.close()


def test_what_is_gone_ends_the_stream_with_the_reason(sender: Broadcaster) -> None:
    seen = Counter()
    watch = sender.watch("topic", seen.look)
    watch.take(WAIT_S)
    seen.failure = UnknownPlanError("it was undeployed")
    ended = watch.take(WAIT_S)
    assert ended is not None
    assert (ended.event, json.loads(ended.data)["code"]) == ("ended", "unknown-plan")
    watch.close()


def test_a_picture_that_cannot_be_made_ends_its_own_stream_and_no_other(
    sender: Broadcaster, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = Counter(), Counter()
    watches = sender.watch("bad", bad.look), sender.watch("good", good.look)
    for watch in watches:
        watch.take(WAIT_S)
    bad.picture = {"name": "\udce4.siddhiql"}
    ended = watches[0].take(WAIT_S)
    assert ended is not None
    assert (ended.event, json.loads(ended.data)["code"]) == ("ended", "internal")
    assert "a live picture cannot be made" in caplog.text
    good.picture = {"rate": 2}
    change = watches[1].take(WAIT_S)
    assert change is not None
    assert (change.event, json.loads(change.data)["rate"]) == ("change", 2)
    with pytest.raises(UnicodeEncodeError):
        sender.watch("bad", bad.look)
    bad.picture = {"name": "fixed"}
    again = sender.watch("bad", bad.look)
    whole = again.take(WAIT_S)
    assert whole is not None
    assert json.loads(whole.data)["name"] == "fixed"
    for watch in (*watches, again):
        watch.close()


def test_a_manager_that_stops_ends_all_streams() -> None:
    sender = Broadcaster(3)
    watch = sender.watch("topic", Counter().look)
    watch.take(WAIT_S)
    sender.close()
    ended = watch.take(WAIT_S)
    assert ended is not None
    assert (ended.event, json.loads(ended.data)["code"]) == ("ended", "manager-unavailable")
    with pytest.raises(StreamsBusyError):
        sender.watch("topic", Counter().look)


# ---- over HTTP ------------------------------------------------------------------------------------------------------


@pytest.fixture
def view() -> Iterator[FakeView]:
    world = World()
    world.active(events=1_000)
    made = FakeView(world)
    yield made
    made.broadcaster.close()


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 10_000).test_client()


def events(stream: Iterator[bytes]) -> Iterator[tuple[str, Any]]:
    for piece in stream:
        lines = dict(line.split(": ", 1) for line in piece.decode().splitlines() if ": " in line and line[0] != ":")
        if "event" in lines:
            yield lines["event"], json.loads(lines["data"])


def test_a_plan_is_watched_until_it_is_undeployed(client: FlaskClient, view: FakeView) -> None:
    answer = client.get("/api/v1/plans/Storms/live", buffered=False)
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    assert answer.headers["X-Accel-Buffering"] == "no"
    told = events(answer.response)  # type: ignore[arg-type]
    event, picture = next(told)
    assert (event, set(picture)) == ("picture", set(LivePlanView.__struct_fields__))
    assert picture["nodes"]["lateness#0"]["state"] == "live"
    view.world.hear(driver(topology("running")), task(events=5_000), peer=b"driver")
    event, change = next(told)
    assert event == "change"
    assert change["nodes"]["lateness#0"]["received"] == 2_500
    view.world.instructions += view.world.plane.remove_plan(KEY, view.world.now_ms)
    assert [(event, told["code"]) for event, told in told][-1] == ("ended", "unknown-plan")
    answer.close()


def test_the_overview_is_watched(client: FlaskClient) -> None:
    answer = client.get("/api/v1/overview/live", buffered=False)
    event, picture = next(events(answer.response))  # type: ignore[arg-type]
    known = client.get("/api/v1/overview").get_json()
    assert (event, set(picture)) == ("picture", set(known))
    answer.close()


def test_more_than_may_watch_are_told_to_ask(client: FlaskClient) -> None:
    open_ones = [client.get("/api/v1/plans/Storms/live", buffered=False) for _ in range(2)]
    refused = client.get("/api/v1/plans/Storms/live")
    assert (refused.status_code, refused.get_json()["code"]) == (503, "streams-busy")
    assert refused.headers["Retry-After"]
    for one in open_ones:
        one.close()
    client.get("/api/v1/plans/Storms/live", buffered=False).close()


def test_what_is_not_there_cannot_be_watched(client: FlaskClient) -> None:
    assert client.get("/api/v1/plans/Calm/live").status_code == 404


def test_a_client_that_goes_away_makes_room_for_another(view: FakeView) -> None:
    port = free_port()
    server = WebServer(create_app(view, 10_000), "127.0.0.1", port, 8, 10_000, ServerSecurity(), "a test")
    server.start()
    address = f"http://127.0.0.1:{port}/api/v1/plans/Storms/live"
    watching = [requests.get(address, stream=True, timeout=WAIT_S) for _ in range(2)]
    for one in watching:
        assert b"event: picture" in next(one.iter_content(4_096)) + next(one.iter_content(4_096))
    assert requests.get(address, timeout=WAIT_S).status_code == 503
    for one in watching:
        one.close()
    deadline = time.monotonic() + WAIT_S
    for events_so_far in itertools.count(2_000, 1_000):
        view.world.hear(task(events=events_so_far))
        with requests.get(address, stream=True, timeout=WAIT_S) as again:
            if again.status_code == 200:
                break
        assert time.monotonic() < deadline
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 3  # a stream that continues does not hold the server up
