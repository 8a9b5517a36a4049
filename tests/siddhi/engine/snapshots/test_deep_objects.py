"""Objects of the maximum depth: an app stores and measures them, and continues from its snapshot.

It creates none that are deeper.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.scheduling.failed_events import FailedEvents
from siddhi.language.parser import parse
from siddhi.nesting import DEEPEST, nests_too_deeply

DEEP = '{"a":[' * (DEEPEST // 2) + "]}" * (DEEPEST // 2)
HOLDING = """
    define table T (o object); from S select o insert into T;
    from S#window.length(3) select list:collect(o) as o insert into Lists;
    from S#window.length(3) select map:collect('k', o) as o insert into Maps;
    from S#window.length(3) select json:groupAsObject(o, 'all') as o insert into Groups;
    partition with (k of S) begin from every e1=S -> e2=S select e1.o as o insert into Pairs; end;
"""
LOOP = """
    define table T (k string, o object);
    from S[s == '{}'] select k, o insert into T;
    from S[s != '{}']#window.lengthBatch(1) as S join T on S.k == T.k select S.k as k, CALL as o insert into U;
    from U update T set T.o = o on T.k == k;
    from U select o insert into O;
"""


class App:
    """A running app with a stream `S` of objects and texts; counts failed events, keeps what the stream `O` gets."""

    def __init__(self, queries: str) -> None:
        self._app = analyse(parse(f"define stream S (k string, o object, s string); {queries}"))
        self.failed: list[str] = []
        self.got: list[Any] = []
        self.runtime = self._built()
        self.runtime.start(0)

    def send(self, *texts: str) -> None:
        columns = {"_timestamp": [1] * len(texts), "k": ["a"] * len(texts)}
        objects = pa.array([text.encode() for text in texts], pa.binary())
        self.runtime.send("S", pa.record_batch({**columns, "o": objects, "s": list(texts)}))

    def goes_on(self) -> None:
        """Return the app, measured and restored from a snapshot of itself."""
        assert sum(part.size.bytes for part in self.runtime.statistics().state) > 0
        state = self.runtime.snapshot()
        self.runtime = self._built()
        self.runtime.restore(state)

    def _built(self) -> AppRuntime:
        runtime = AppRuntime(self._app)
        runtime.add_failure_listener(self._fail)
        if "O" in self._app.streams:
            runtime.add_stream_callback("O", self._receive)
        return runtime

    def _fail(self, failed: FailedEvents) -> None:
        self.failed += [failed.message] * failed.events

    def _receive(self, batch: pa.RecordBatch) -> None:
        self.got += [value if value is None else msgspec.json.decode(value) for value in batch["o"].to_pylist()]


def test_an_app_that_holds_the_deepest_objects_is_measured_and_goes_on_from_its_snapshot() -> None:
    app = App(HOLDING + "from S join T select T.o as o insert into O;")
    app.send(DEEP, DEEP)
    app.goes_on()
    app.got.clear()
    app.send(DEEP)
    assert app.got == [msgspec.json.decode(DEEP)] * 3
    assert app.failed == []


@pytest.mark.parametrize(
    "call",
    [
        "json:toObject(s)",
        "json:getObject(s, '$..a')",
        "json:setElement(o, '$', o, 'b')",
        "map:create('k', o)",
        "map:put(map:create(), 'k', o)",
        "list:create(o)",
        "list:collect(list:create(o))",
        "wrapped(o)",
    ],
)
def test_an_event_of_which_a_deeper_object_would_be_made_fails_and_others_go_on(call: str) -> None:
    wrapped = "define function wrapped[python] return object { return data };"
    app = App(f"{wrapped} from S select {call} as o insert into O;")
    levels = DEEPEST + 1 if "(s" in call else DEEPEST
    app.send('{"a":' * levels + "1" + "}" * levels, "{}")
    assert len(app.got) == 1
    assert [message.endswith("nested lists and maps") for message in app.failed] == [True]


@pytest.mark.thorough
@pytest.mark.parametrize("call", ["map:put(T.o, 'o', T.o)", "list:collect(T.o)", "map:collect('o', T.o)"])
def test_an_object_that_an_app_puts_into_itself_again_and_again_ends_at_the_bound(call: str) -> None:
    app = App(LOOP.replace("CALL", call))
    app.send("{}")
    for _ in range(DEEPEST + 20):
        app.send("1")
    app.goes_on()
    assert len(app.failed) in (20, 21), "it failed from then on"
    assert nests_too_deeply([[app.got[-1]]])


def test_a_text_that_nests_too_deeply_is_collected_as_a_text() -> None:
    app = App("from S select json:groupAsObject(s) as o insert into O;")
    deep = "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)
    app.send(deep)
    assert app.got == [[deep]]
