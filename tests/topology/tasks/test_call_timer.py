"""Calls of a plan's own code that do not end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from siddhi.analysis.analyser import analyse
from siddhi.column_names import TIMESTAMP
from siddhi.engine.app_runtime import AppRuntime
from siddhi.engine.scheduling.failed_events import FailedEvents
from siddhi.engine.time_limits import CallLimit, set_call_limit
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from topology.stages.tasks import call_timer
from topology.stages.tasks.call_timer import CallTimer

STREAM = "define stream S (text string, n long); "


@pytest.fixture(autouse=True)
def timer(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallTimer]:
    monkeypatch.setattr(call_timer, "LIMIT_MS", 100)
    former = signal.getsignal(signal.SIGALRM)
    found = CallTimer()
    assert found.install()
    yield found
    set_call_limit(CallLimit())
    signal.signal(signal.SIGALRM, former)


def run(text: str, *rows: list[Any]) -> tuple[list[Any], list[str]]:
    """What comes out of the stream Out, and why events failed."""
    engine = AppRuntime(analyse(parse(STREAM + text)))
    out: list[Any] = []
    failed: list[FailedEvents] = []
    engine.add_stream_callback("Out", lambda batch: out.extend(batch.column("n").to_pylist()))
    engine.add_failure_listener(failed.append)
    engine.start(1_000)
    stamps = pa.array([1_000] * len(rows), pa.int64())
    columns = {TIMESTAMP: stamps, "text": [row[0] for row in rows], "n": pa.array([row[1] for row in rows], pa.int64())}
    engine.send("S", pa.RecordBatch.from_pydict(columns), 1_000)
    return out, [one.message for one in failed]


EVIL = "a" * 40


@pytest.mark.parametrize(
    "expression",
    [
        "regex:matches('(a+)+b', text)",
        "regex:find('(a|aa)+$x', text)",
        "regex:lookingAt('(a*)*b', text)",
        "regex:group('((a+)+)b', text, 1)",
        "str:regexp(text, '(a+)+b')",
        "str:replaceAll(text, '(a+)+b', 'x')",
        "str:replaceFirst(text, '(a+)+b', 'x')",
        "str:split(text, '(a+)+b', 0)",
        "str:substr(text, '(a+)+b')",
    ],
)
def test_an_expression_that_does_not_end_fails_its_event_alone(expression: str) -> None:
    out, failed = run(f"from S select n, {expression} as found insert into Out;", ["b", 1], [EVIL, 2], ["c", 3])
    assert out == [1, 3]
    assert len(failed) == 1
    assert "took more than 100 ms of processor time" in failed[0]


def test_tokens_that_do_not_end_fail_their_event_alone() -> None:
    out, failed = run("from S#str:tokenize(text, '(a+)+b') select n insert into Out;", ["x", 1], [EVIL, 2])
    assert out == [1]
    assert "took more than" in failed[0]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "body",
    [
        "while True: pass\n return 1",
        "for a in range(9999999):\n  for b in range(9999999): pass\n return 1",
        "while True:\n  try: pass\n  except Exception: pass\n return 1",
        "x = 7\n while True: x = x * x % 1000003\n return 1",
    ],
)
def test_a_script_that_does_not_end_fails_its_event_alone(body: str) -> None:
    script = f"define function f[python] return long {{\n if data[0] != 2: return data[0]\n {body}\n}};"
    out, failed = run(f"{script} from S select f(n) as n insert into Out;", ["", 1], ["", 2], ["", 3])
    assert out == [1, 3]
    assert "took more than" in failed[0]


@pytest.mark.parametrize(
    "body",
    ["try: return 1\n except: return 2", "try: return 1\n finally: return 2",
     "while True:\n  try: return 1\n  finally: continue"],
)  # fmt: skip
def test_a_script_that_could_hide_that_it_was_stopped_is_refused(body: str) -> None:
    with pytest.raises(SiddhiAnalysisError, match="a script c"):
        run(f"define function f[python] return long {{\n {body}\n}}; from S select f(n) as n insert into Out;")


def test_a_range_that_is_too_long_fails_its_event() -> None:
    script = "define function f[python] return long { return sum(range(data[0])) };"
    out, failed = run(f"{script} from S select f(n) as n insert into Out;", ["", 3], ["", 2**40])
    assert out == [3]
    assert "a range may have" in failed[0]


@pytest.mark.parametrize(
    "expression",
    [
        "str:repeat(text, 2000000000)",
        "str:replaceAll(str:repeat(text, 3000), 'x', str:repeat('y', 3000))",
        "str:fillTemplate(str:repeat('{{1}}', 800000), str:repeat(text, 4000000))",
        "str:concat(str:repeat(text, 4000000), str:repeat(text, 4000000))",
    ],
)
def test_no_function_makes_a_text_without_end(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_timer, "LIMIT_MS", 10_000)
    out, failed = run(f"from S select n, {expression} as t insert into Out;", ["x", 1])
    assert out == []
    assert "a text may have 4194304" in failed[0]


@pytest.mark.thorough
def test_many_events_that_do_not_end_hold_up_less_and_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_timer, "LIMIT_MS", 400)
    rows: list[list[Any]] = [[EVIL + str(number), number] for number in range(8)]
    began_s = time.thread_time()
    out, failed = run("from S select n, regex:matches('(a+)+b', text) as m insert into Out;", *rows, ["ab", 9])
    assert out == [9]
    assert len(failed) == 4, "one for each limit: 400, 200, 100 and 50 ms"
    assert time.thread_time() - began_s < 2.5


def test_only_the_main_thread_can_stop_calls() -> None:
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(CallTimer().install()))
    thread.start()
    thread.join()
    assert found == [False]
