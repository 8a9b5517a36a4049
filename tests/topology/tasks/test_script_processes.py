"""Scripts run in a process of their own: whatever they do, the plan and the other calls of a batch continue."""

from __future__ import annotations

import importlib
import itertools
import os
import re
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from siddhi.nesting import TOO_DEEP
from siddhi.scripts import process as process_module
from siddhi.scripts.javascript import JAVASCRIPT
from siddhi.scripts.language import ScriptFailure, ScriptLanguage
from siddhi.scripts.messages import LENGTH, READY, CallAnswers, CallRequest, framed, write
from siddhi.scripts.python import PYTHON, compile_python
from topology.errors import TopologyError
from topology.stages.settings import ScriptProcessSettings
from topology.stages.state.forked_call import ForkedCall
from topology.stages.tasks import script_process, script_runner
from topology.stages.tasks.script_process import ProcessEndedError, ScriptProcess
from topology.stages.tasks.script_runner import MOST_STOPPED, PlanScripts

LIMITS = ScriptProcessSettings(cpu_ms=200)


@pytest.fixture
def scripts() -> Iterator[PlanScripts]:
    found = PlanScripts(LIMITS)
    yield found
    found.close()


def process_of(scripts: PlanScripts) -> ScriptProcess:
    process = scripts._process
    assert process is not None
    return process


def reason(answer: object) -> str:
    assert isinstance(answer, ScriptFailure), answer
    return answer.reason


def test_the_calls_of_a_batch_are_answered_in_order_and_values_keep_their_types(scripts: PlanScripts) -> None:
    given: list[Any] = [
        *(None, True, 1, 1.0, -(2**63), 2**70, float("inf"), "\u00e9\U0001f600", [1, [2.0, None]]),
        *({"a": {"b": [1]}}, {1: "x", None: 2, (1, 2): 3}, {1, "a"}, frozenset({2}), (1, (2,)), {}),
    ]  # fmt: skip
    same = scripts.function(PYTHON, "\nreturn data[0]\n", "same")
    answers = same([[one] for one in given])
    assert [(type(one), one) for one in answers] == [(type(one), one) for one in given]
    many = [[place] for place in range(10_000)]
    assert scripts.function(PYTHON, "\nreturn data[0] * 2\n", "twice")(many) == [2 * place for place in range(10_000)]
    assert same([[chr(0xD800)]][:0]) == []
    assert scripts.function(PYTHON, "\nreturn [chr(0xd800), {chr(0xd800): 1}]\n", "half")([[]]) == [["?", {"?": 1}]]


def test_what_a_script_raises_or_returns_wrongly_fails_its_call_alone(scripts: PlanScripts) -> None:
    divide = scripts.function(PYTHON, "\nreturn 1 // data[0]\n", "divide")
    answers = divide([[1], [0], [1]])
    assert (answers[0], answers[2]) == (1, 1)
    assert reason(answers[1]) == "ZeroDivisionError: integer division or modulo by zero"
    process = process_of(scripts)
    for body, words in (
        ("return lambda: 1", "a function is no value of a plan"),
        ("x = []\nx.append(x)\nreturn x", TOO_DEEP),
        ("x = [1]\nfor i in range(60):\n    x = [x, x]\nreturn x", "a value may have"),
        ("raise ValueError('x' * 1000000)\nreturn 1", "ValueError: xxx"),
        ("return ['\u20ac' * 3000000, '\u20ac' * 3000000]", r"the result has \d+ bytes"),
    ):
        (answer,) = scripts.function(PYTHON, f"\n{body}\n", "f")([[]])
        assert re.search(words, reason(answer))
        assert len(reason(answer)) <= 1_000
    assert process.ended, "a process has the functions that were known when it started"
    assert list(scripts.stopped()) == [], "none of them had to be stopped"


KEYS = "const o = {}; for (let i = 0; i < 2e4; i++) o['k' + i] = i; "
LIST = "const list = new Array(1e5).fill(1); "
TEXTS = "const a = 'x'.repeat(4e6) + 'a', b = 'x'.repeat(4e6) + 'b'; "


@pytest.mark.parametrize(
    "body",
    [
        KEYS + "while (true) ({...o});",
        KEYS + "while (true) { const {k1, ...rest} = o; }",
        KEYS + "while (true) for (const k in o) break;",
        LIST + "while (true) [...list];",
        LIST + "while (true) new Set(list);",
        LIST + "while (true) new Map(list.map((x) => [x, x]));",
        TEXTS + "while (true) a < b;",
        "let b = (1n << 300000n) - 1n; while (true) `${ b }`;",
        "let b = (1n << 300000n) - 1n; while (true) b * b;",
        "(async () => { while (true); })();",
        "Promise.reject(1).catch(() => { while (true); }); while (true);",
        "const o = {[Symbol.iterator]: () => ({next: () => ({}), return() { for (;;); }})}; for (const x of o) break;",
        "/(a+)+b/.test('a'.repeat(40));",
        "while (true);",
    ],
)
def test_no_syntax_of_javascript_outlives_the_limit_of_a_call(scripts: PlanScripts, body: str) -> None:
    used_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    script = scripts.function(JAVASCRIPT, f"if (data[0]) {{ {body} }} return 5;", "f")
    first, hangs, last = script([[False], [True], [False]])
    assert (first, last) == (5, 5)
    assert "it took more than" in reason(hangs)
    scripts.close()
    now_s = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert now_s.ru_utime + now_s.ru_stime - used_s.ru_utime - used_s.ru_stime < 10, "it does not run on"


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n    pass",
        "x = [i for i in range(2000)]\nwhile True:\n    sorted(x)",
        "x = '1' * 4000000\nwhile True:\n    x.count('11')",
        "try:\n    while True:\n        pass\nexcept Exception:\n    return 1",
        "x = 3 ** 80000\nwhile True:\n    x * x",
        "x = [1]\nfor i in range(22):\n    x = [x, x]\nreturn x",
    ],
)
def test_a_python_script_without_end_is_stopped_and_its_neighbours_keep_their_answers(
    scripts: PlanScripts, body: str
) -> None:
    indented = body.replace("\n", "\n    ")
    script = scripts.function(PYTHON, f"\nif data[0]:\n    {indented}\nreturn 5\n", "f")
    answers = script([*[[False]] * 500, [True], *[[False]] * 500, [True], [False]])
    failed = [place for place, one in enumerate(answers) if isinstance(one, ScriptFailure)]
    assert failed == [500, 1001]
    assert reason(answers[500]).startswith("it took more than 200 ms")
    assert reason(answers[1001]).startswith("it took more than 100 ms"), "the limit decreases within a batch"
    assert list(scripts.stopped()) == [("f", 2, reason(answers[1001]))]
    assert list(scripts.stopped()) == []


@pytest.mark.parametrize(
    ("language", "body"),
    [
        (PYTHON, "\nif data[0]:\n    x = []\n    while True:\n        x.append(' ' * 4000000)\nreturn 5\n"),
        (PYTHON, "\nif data[0]:\n    x = [0]\n    while True:\n        x = x + x[:1000000]\nreturn 5\n"),
        (JAVASCRIPT, "if (data[0]) { const all = []; while (true) all.push(new Uint8Array(1e6)); } return 5;"),
        (JAVASCRIPT, "if (data[0]) { let t = 'x'; while (true) t += t; } return 5;"),
    ],
)
def test_the_memory_of_a_script_is_limited_and_the_next_call_has_it_again(language: ScriptLanguage, body: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss  # of children of other tests
    scripts = PlanScripts(ScriptProcessSettings(cpu_ms=5_000, memory_bytes=192 * 2**20))
    try:
        first, greedy, *rest = scripts.function(language, body, "f")([[False], [True], *[[False]] * 5])
        assert (first, rest) == (5, [5] * 5)
        assert re.search("bytes of memory|more than 32 MiB|4194304 characters or items|string too long", reason(greedy))
    finally:
        scripts.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    assert after == before or after * 1024 < 2**30


def test_many_calls_without_end_delay_a_batch_for_seconds_and_its_rest_fails_with_that_reason(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_runner, "MOST_STOPPED", 3)
    script = scripts.function(PYTHON, "\nwhile data[0]:\n    pass\nreturn 5\n", "f")
    answers = script([[0], *[[1]] * 20, [0]])
    assert answers[0] == 5
    assert [reason(one)[:16] for one in answers[1:4]] == ["it took more tha"] * 3
    assert {reason(one) for one in answers[4:]} == {"it was not called: 3 calls of the same batch were stopped"}
    assert script([[0]]) == [5], "the limit counts stopped calls of one batch only"
    assert MOST_STOPPED == 16


def test_a_process_killed_from_outside_costs_no_event(scripts: PlanScripts) -> None:
    script = scripts.function(PYTHON, "\nfor i in range(data[0]):\n    pass\nreturn 5\n", "f")
    assert script([[1]]) == [5]
    before = process_of(scripts).id
    os.kill(before, signal.SIGKILL)
    assert script([[1]] * 3) == [5] * 3
    assert process_of(scripts).id != before
    assert list(scripts.stopped()) == []


def test_a_process_killed_from_outside_at_each_attempt_fails_the_call_and_no_other(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    request = ScriptProcess.request
    left = [2]

    def killed(self: ScriptProcess, asked: Any, message: bytes) -> None:
        if left[0]:
            left[0] -= 1
            os.kill(self.id, signal.SIGKILL)
            self._process.wait()
        request(self, asked, message)

    monkeypatch.setattr(ScriptProcess, "request", killed)
    first, *rest = script([[1], [2], [3]])
    assert "its process was ended" in reason(first)
    assert rest == [2, 3]


def test_a_stopped_process_is_ended_after_its_time(scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_process, "WALL_S", 0.3)
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    assert script([[1]]) == [1]
    os.kill(process_of(scripts).id, signal.SIGSTOP)
    assert script([[1], [2]]) == [1, 2], "what was not answered is asked again"


GARBAGE = {
    "random bytes": b"\x00\x00\x00\x10" + bytes(range(256)) * 8,
    "a long message": LENGTH.pack(2**31) + b"x" * 70_000,
    "no answers": framed(write([1, 2, 3])),
    "no message": framed(b"\xc1" * 50),
    "too many answers": framed(write(CallAnswers([1] * 5_000, {}))),
    "no answer": framed(write(CallAnswers([], {}))),
    "failures of no call": framed(write(CallAnswers([1], {7: "x"}))),
    "nested without end": framed(b"\x92" + b"\x91" * 100_000),
    "an unknown type": framed(b"\x92\x91\xd4\x63\x00\x80"),
    "a set of lists": framed(b"\x92\x91\xd5\x03\x91\x90\x80"),
}


@pytest.mark.parametrize("written", GARBAGE.values(), ids=GARBAGE.keys())
def test_a_process_that_writes_anything_is_ended_and_the_plan_continues(
    scripts: PlanScripts, written: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "garbage.py"
    program.write_text(
        "import os, sys\n"
        "def read(size):\n"
        "    found = b''\n"
        "    while len(found) < size:\n"
        "        found += os.read(0, size - len(found)) or sys.exit(3)\n"
        "    return found\n"
        "read(int.from_bytes(read(4), 'little'))\n"
        f"os.write(1, {framed(READY)!r})\n"
        "read(int.from_bytes(read(4), 'little'))\n"
        f"os.write(1, {written!r})\n"
        "os.read(0, 1)\n"
    )
    popen = script_process.subprocess.Popen

    def garbage(command: list[str], **options: Any) -> Any:
        return popen([command[0], str(program)], **options)

    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    with monkeypatch.context() as patched:
        patched.setattr(script_process.subprocess, "Popen", garbage)
        (answer,) = script([[1]])
        assert "its process was ended: it wrote" in reason(answer)
    assert script([[1]]) == [1]


def test_results_are_bounded_for_a_call_and_for_a_batch(scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_runner, "MOST_ANSWER_BYTES", 10_000_000)
    script = scripts.function(PYTHON, "\nreturn 'x' * data[0]\n", "f")
    answers = script([[4_000_000], *[[1_000_000]] * 20, [1]])
    assert answers[0] == "x" * 4_000_000
    complete = [one for one in answers if isinstance(one, str)]
    assert 10_000_000 <= sum(map(len, complete)) < 16_000_000
    assert {reason(one) for one in answers[len(complete) :]} == {
        "the results of one batch may have 10000000 bytes together"
    }
    assert script([[3]]) == ["xxx"], "what was not read does not reach the next call"


def test_arguments_of_any_size_arrive_or_fail_their_call(scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch) -> None:
    script = scripts.function(PYTHON, "\nreturn len(data[0])\n", "f")
    assert script([["x" * 4_000_000]] * 6) == [4_000_000] * 6
    monkeypatch.setattr(script_runner, "LARGEST_REQUEST", 100_000)
    monkeypatch.setattr(script_runner, "MOST_REQUEST_BYTES", 50_000)
    answers = script([["x"], ["x" * 200_000], ["xx"], ["x" * 90_000]])
    assert (answers[0], answers[2], answers[3]) == (1, 2, 90_000)
    assert reason(answers[1]) == "its arguments have more than 100000 bytes"


def test_a_process_has_nothing_of_its_parent_and_can_open_and_start_nothing(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SECRET", "of the stage")
    with (tmp_path / "key").open("wb") as key:
        os.set_inheritable(key.fileno(), True)  # noqa: FBT003 - it has no name for it
        script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
        assert script([[1]]) == [1]
    process = Path(f"/proc/{process_of(scripts).id}")
    assert set((process / "environ").read_bytes().split(b"\0")) - {b""} == {
        f"PYTHONPATH={script_process._module_path()}".encode()
    }
    assert sorted(one.name for one in (process / "fd").iterdir()) == ["0", "1", "2"]
    users = [line.split()[1:] for line in (process / "status").read_text().splitlines() if line.startswith("Uid")]
    assert "0" not in users[0], "root would have no limit of processes"
    limits = (process / "limits").read_text()
    limit = {line[:25].strip(): line[26:].split()[0] for line in limits.splitlines()[1:]}
    assert limit["Max open files"] == "3", "the three that it has"
    assert limit["Max processes"] == limit["Max core file size"] == "0"
    assert limit["Max address space"] == str(LIMITS.memory_bytes)
    assert os.getsid(process_of(scripts).id) == process_of(scripts).id


def test_a_process_that_was_idle_ends_and_the_next_call_starts_another_one(scripts: PlanScripts) -> None:
    scripts._settings = ScriptProcessSettings(idle_ms=1_000)
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    assert script([[1]]) == [1]
    ended = process_of(scripts)
    ended._process.wait()
    assert script([[2]]) == [2], "it had ended before the call"
    process_of(scripts)._process.wait()
    scripts.tend()
    assert scripts._process is None
    assert script([[3]]) == [3]
    assert list(scripts.stopped()) == []


def test_a_plan_without_scripts_has_no_process(scripts: PlanScripts) -> None:
    scripts.start()
    scripts.tend()
    assert scripts._process is None


def test_a_process_ends_with_its_parent_even_in_a_call_without_end(tmp_path: Path) -> None:
    told = tmp_path / "id"
    program = (
        "import os, threading, sys\n"
        "from siddhi.scripts.python import PYTHON\n"
        "from topology.stages.settings import ScriptProcessSettings\n"
        "from topology.stages.tasks.script_runner import PlanScripts\n"
        "scripts = PlanScripts(ScriptProcessSettings(cpu_ms=200))\n"
        "f = scripts.function(PYTHON, '\\nwhile data[0]:\\n    pass\\nreturn 1\\n', 'f')\n"
        "f([[0]])\n"
        f"open({str(told)!r}, 'w').write(str(scripts._process.id))\n"
        "threading.Thread(target=lambda: f([[1]]), daemon=True).start()\n"
        "os._exit(0) if sys.stdin.read() == '' else None\n"
    )
    parent = script_process.subprocess.run([sys.executable, "-c", program], input=b"", check=True)
    assert parent.returncode == 0
    await_end(int(told.read_text()))


def test_a_stopped_process_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from siddhi.scripts.python import PYTHON\n"
        "from topology.stages.settings import ScriptProcessSettings\n"
        "from topology.stages.tasks.script_runner import PlanScripts\n"
        "scripts = PlanScripts(ScriptProcessSettings())\n"
        "scripts.function(PYTHON, '\\nreturn 1\\n', 'f')([[0]])\n"
        "os.kill(scripts._process.id, signal.SIGSTOP)\n"
        "os.waitid(os.P_PID, scripts._process.id, os.WSTOPPED | os.WNOWAIT)\n"
        f"open({str(tmp_path / 'id')!r}, 'w').write(str(scripts._process.id))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    parent = script_process.subprocess.run([sys.executable, "-c", program], check=False)
    assert parent.returncode == -signal.SIGKILL
    await_end(int((tmp_path / "id").read_text()))


def test_what_must_go_on_goes_on_while_scripts_run_and_not_in_a_copy_of_the_process() -> None:
    times: list[int] = []
    scripts = PlanScripts(ScriptProcessSettings(cpu_ms=5_000), lambda: times.append(os.getpid()))
    script = scripts.function(PYTHON, "\nfor i in range(data[0]):\n    pass\nreturn 5\n", "f")
    try:
        assert script([[1]]) == [5]
        times.clear()
        assert script([[3_000_000]] * 12) == [5] * 12
        assert len(times) >= 12, "each answer that took long, and each wait"
        before = len(times)
        call = ForkedCall.start(lambda: repr((script([[2]]), times[before:])).encode())
        assert call.result(time.monotonic() + 60) == b"([5], [])"
    finally:
        scripts.close()


def await_end(process_id: int) -> None:
    """Return when the process has ended; the test's own limit of time is the limit."""
    try:
        descriptor = os.pidfd_open(process_id)
    except ProcessLookupError:
        return
    try:
        ends = select.poll()  # `select` takes no descriptor above 1,023, which a process of many tests may have
        ends.register(descriptor, select.POLLIN)
        ends.poll(60_000)
        os.kill(process_id, 0)
    except ProcessLookupError:
        return
    finally:
        os.close(descriptor)
    assert Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_copy_of_the_process_runs_scripts_in_a_process_of_its_own(scripts: PlanScripts) -> None:
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    assert script([[1]]) == [1]
    reading, writing = os.pipe()
    copy = os.fork()
    if not copy:
        try:
            os.write(writing, b"right" if script([[2]]) == [2] else b"wrong")
        finally:
            os._exit(0)
    os.close(writing)
    assert script([[place] for place in range(50)]) == list(range(50))
    assert os.read(reading, 10) == b"right"
    os.close(reading)
    os.waitpid(copy, 0)
    assert script([[3]]) == [3]


def test_a_parent_with_less_memory_than_scripts_may_use_passes_its_own_limit_on() -> None:
    scripts = PlanScripts(ScriptProcessSettings(memory_bytes=2**40))
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    call = ForkedCall.start(lambda: repr(script([[2]])).encode())  # its copies have limits of their own
    assert call.result(time.monotonic() + 60) == b"[2]"
    scripts.close()


def test_a_process_that_cannot_start_ends_the_task_which_loses_nothing(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    monkeypatch.setattr(script_process.sys, "executable", "/bin/false")
    scripts.start()
    with pytest.raises(TopologyError, match=r"no process for the plan's scripts can be started: .*exit code 1"):
        script([[1]])
    monkeypatch.setattr(script_process.sys, "executable", "/no/such/file")
    with pytest.raises(TopologyError, match="No such file"):
        script([[1]])


def test_a_language_whose_compiler_has_no_name_is_refused(scripts: PlanScripts) -> None:
    language = ScriptLanguage("lua", lambda body: compile_python(f"{body}\n"))
    with pytest.raises(TopologyError, match="functions in 'lua' cannot run in a process of their own") as refused:
        scripts.function(language, "\nreturn 1\n", "f")
    assert refused.value.reason_code == "not-supported"


def test_another_thread_may_have_built_what_the_loop_runs() -> None:
    scripts = PlanScripts(LIMITS)
    made: list[Callable[..., Any]] = []

    def build() -> None:
        made.append(scripts.function(PYTHON, "\nreturn data[0]\n", "f"))
        scripts.start()

    thread = threading.Thread(target=build)
    thread.start()
    thread.join()
    try:
        assert made[0]([[1]]) == [1]
    finally:
        scripts.close()


def test_an_error_while_answers_are_awaited_leaves_none_for_the_next_call(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    assert script([[1]]) == [1]
    with monkeypatch.context() as patched:
        patched.setattr(ScriptProcess, "answers", Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            script([[2]])
    assert script([[3]]) == [3]


def test_what_ends_process_after_process_ends_with_the_batch(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = itertools.count(1)

    class Killed:
        def await_ready(self) -> None: ...

        def request(self, request: CallRequest, message: bytes) -> None:
            attempt = next(attempts)
            assert attempt <= 100, "it ends"
            raise ProcessEndedError("its process was ended", attempt % len(request.calls))

    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    monkeypatch.setattr(scripts, "_started", Killed)
    answers = script([[place] for place in range(500)])
    assert all("its process was ended" in reason(one) or "it was not called" in reason(one) for one in answers)


def test_processes_that_end_or_cannot_start_leave_no_descriptor(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    opened = Path("/proc/self/fd")
    before = len(list(opened.iterdir()))
    for _ in range(3):
        assert script([[1]]) == [1]
        os.kill(process_of(scripts).id, signal.SIGKILL)
        assert script([[1]]) == [1]
        scripts.close()
    with monkeypatch.context() as patched:
        patched.setattr(script_process.sys, "executable", "/no/such/file")
        with pytest.raises(TopologyError, match="No such file"):
            script([[1]])
    assert len(list(opened.iterdir())) == before


def test_a_parent_with_many_descriptors_and_blocked_signals_passes_none_of_them_on(scripts: PlanScripts) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    many: list[int] = []
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPROF])
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
        many += [os.dup(0) for _ in range(1_500)]
        script = scripts.function(PYTHON, "\nwhile data[0]:\n    pass\nreturn 5\n", "f")
        assert script([[0]]) == [5]
        assert sorted(one.name for one in Path(f"/proc/{process_of(scripts).id}/fd").iterdir()) == ["0", "1", "2"]
        (endless,) = script([[1]])
        assert "it took more than 200 ms" in reason(endless)
    finally:
        for descriptor in many:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_process_that_only_seems_to_make_progress_is_ended(
    scripts: PlanScripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script_process, "WALL_S", 0.3)
    script = scripts.function(PYTHON, "\nreturn data[0]\n", "f")
    assert script([[1]]) == [1]
    process = process_of(scripts)
    looks = itertools.count(1)

    def place(self: ScriptProcess) -> int:
        look = next(looks)
        assert look < 100_000, "it ends"
        return look * 7 % 5 if self is process else 0

    os.kill(process.id, signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(ScriptProcess, "place", property(place))
        assert script([[1], [2]]) == [1, 2]
    assert process_of(scripts) is not process


def test_what_a_language_prints_is_no_answer(
    scripts: PlanScripts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "talkative_language.py").write_text(
        "def compiled(body):\n"
        "    print('compiles', flush=True)\n"
        "    return lambda data: print('is called', flush=True) or 7\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    compiler = importlib.import_module("talkative_language").compiled
    script = scripts.function(ScriptLanguage("talkative", compiler), "\nreturn 7\n", "f")
    assert script([[1], [2]]) == [7, 7]


def test_long_integers_count_with_their_size(scripts: PlanScripts) -> None:
    value, size = process_module._sized(1 << 262_000)
    assert size > 262_000 / 4
    assert isinstance(value, msgspec.Raw)
    answers = scripts.function(PYTHON, "\nreturn (1 << 262000) + data[0]\n", "f")([[place] for place in range(300)])
    assert answers == [(1 << 262_000) + place for place in range(300)]
