"""What each instance of an execution group runs, as an app of its own."""

from pathlib import Path

import msgspec
import pytest
from flask.testing import FlaskClient
from manager_world import FakeView, World, plan, task

from cep_cli.monitor.status_text import child_app
from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.tasks import ComponentReport
from cep_manager.authoring.compiler import compile_plan
from cep_manager.graph.child_apps import ChildApp, child_apps
from cep_manager.web.app import create_app
from cep_manager.web.console.pages import topology as topology_pages
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse
from siddhi.scripts.language import ScriptPolicy

SAMPLE = Path(__file__).parents[3] / "samples" / "distributed" / "wso2-app.siddhiql"
KEY = PlanKey(SUPER_TENANT, "wso2-app")


def deployed(text: str) -> World:
    world = World()
    world.put(plan(KEY, text=text, compiled=compile_plan(text, ScriptPolicy(frozenset(), ""))))
    return world


@pytest.fixture
def world() -> World:
    made = deployed(SAMPLE.read_text(encoding="utf-8"))
    parts = tuple(ComponentReport(one, one.split("#")[0], "processor") for one in ("group1#0", "group2#0"))
    made.hear(msgspec.structs.replace(task(), key=KEY, components=parts))
    return made


def found(world: World) -> dict[str, ChildApp]:
    return {one.name: one for one in child_apps(world.snapshot(), world.snapshot().plans[KEY])}


def test_the_sample_has_one_app_of_group1_and_two_of_group2(world: World) -> None:
    apps = found(world)
    assert list(apps) == ["wso2-app-group1-1", "wso2-app-group2-1", "wso2-app-group2-2"]
    first, second = apps["wso2-app-group1-1"], apps["wso2-app-group2-2"]
    assert (first.parent, first.group, first.instance, first.inputs) == (
        "wso2-app",
        "group1",
        "group1#0",
        ("TempStream",),
    )
    assert set(first.outputs) == {"AvgTempStream", "AlertStream"}
    assert first.topics_read == ("wso2-app.TempStream",)
    assert set(first.topics_written) == {"wso2-app.AvgTempStream", "wso2-app.AlertStream"}
    assert second.topics_written == ("wso2-app.HighTempStream",)
    assert [one.state for one in apps.values()] == ["live", "live", "expected"]
    assert (first.task, second.task) == (task().task, -1)


def test_each_text_is_an_app_of_its_own(world: World) -> None:
    for one in found(world).values():
        analysed = analyse(parse(one.text))
        assert set(one.inputs) <= set(analysed.streams)
    assert "query4" in found(world)["wso2-app-group2-1"].text
    assert "query4" not in found(world)["wso2-app-group1-1"].text


def test_texts_have_no_secrets() -> None:
    text = """@App:name('wso2-app')
        define stream S (k string);
        @store(type='rdbms', jdbc.url='jdbc:postgresql://h/d', username='u', password='hidden-1')
        define table T (k string);
        from S insert into T;"""
    (app,) = found(deployed(text)).values()
    assert app.name == "wso2-app-1"
    assert "jdbc.url" in app.text
    assert "hidden-1" not in app.text


def test_rest_and_cli_tell_of_them(world: World) -> None:
    client: FlaskClient = create_app(FakeView(world), 1_000).test_client()
    told = client.get("/api/v1/plans/wso2-app/apps").json
    assert told is not None
    text = child_app(told[0], texts=True)
    assert text.startswith("wso2-app → wso2-app-group1-1 → task 0 on ")
    assert "\tin  : TempStream (topics wso2-app.TempStream), 0.0 events/s" in text
    assert "insert all events into AvgTempStream" in text
    assert child_app(told[2], texts=False).splitlines()[0] == "wso2-app → wso2-app-group2-2 → no task runs it yet"
    assert client.get("/api/v1/plans/nothing/apps").status_code == 404


def test_the_page_of_a_plan_shows_them_with_their_topics(world: World) -> None:
    client = create_app(FakeView(world), 1_000).test_client()
    page = client.get("/plans/wso2-app").text
    assert 'id="apps"' in page
    assert "wso2-app-group2-2" in page
    assert "wso2-app.HighTempStream" in page
    assert 'id="apps"' in client.get("/fragments/plans/wso2-app").text
    assert "more are not shown" not in page


def test_the_page_says_how_many_of_them_it_leaves_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_pages, "MOST_APPS", 2)
    page = create_app(FakeView(world), 1_000).test_client().get("/plans/wso2-app").text
    assert "wso2-app-group2-1" in page
    assert "wso2-app-group2-2" not in page
    assert "1 more are not shown: <code>cep status wso2-app --apps</code> lists all" in page


def test_without_texts_they_are_the_same(world: World) -> None:
    snapshot = world.snapshot()
    record = snapshot.plans[KEY]
    bare = tuple(msgspec.structs.replace(one, text="") for one in child_apps(snapshot, record))
    assert child_apps(snapshot, record, texts=False) == bare
