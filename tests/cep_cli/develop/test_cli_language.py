"""The commands that need no running system: validate, query-plan, simulate, and the help texts."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from cep_cli.main import VERBS, main
from query_plan.xml import read_xml

FLIGHTS = Path(__file__).parents[3] / "samples" / "flights" / "KnockOnDelays.siddhiql"
WRONG = """\
@Plan:name('Wrong')
@Import('A:1.0.0')
define stream A (x int);
@Export('B:1.0.0')
define stream B (x int);
from A[y > 1]
select xx as x
insert into B;
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def wrong_plan(tmp_path: Path) -> str:
    file = tmp_path / "wrong.siddhiql"
    file.write_text(WRONG, encoding="utf-8")
    return str(file)


# ---- validate


def test_a_plan_without_faults_is_valid() -> None:
    result = run("validate", str(FLIGHTS))

    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == f"{FLIGHTS}: 0 errors, 0 warnings"


def test_every_error_is_shown_with_its_place_and_the_exit_code_is_1(wrong_plan: str) -> None:
    result = run("validate", wrong_plan)

    assert result.exit_code == 1
    assert "line 6, column 8" in result.stdout
    assert "    from A[y > 1]\n           ^\n" in result.stdout
    assert "line 7, column 8" in result.stdout
    assert result.stdout.splitlines()[-1] == f"{wrong_plan}: 2 errors, 0 warnings"


VARIABLE = """\
@Plan:name('${NAME}')
@Import('A:1.0.0') define stream A (x int);
@Export('B:1.0.0') define stream B (x int);
from A[x > ${LEAST}] select x insert into B;
"""


@pytest.fixture
def variable_plan(tmp_path: Path) -> str:
    file = tmp_path / "variable.siddhiql"
    file.write_text(VARIABLE, encoding="utf-8")
    return str(file)


def test_variables_of_a_text_get_the_values_that_are_given(variable_plan: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAST", "7")
    assert run("validate", variable_plan, "--set", "NAME=Set", "--set", "LEAST").exit_code == 0
    assert "from A[x > a=b]" in run("query-plan", variable_plan, "--set", "NAME=Set", "--set", "LEAST=a=b").stderr
    assert read_xml(run("query-plan", variable_plan, "--set", "NAME=Set", "--set", "LEAST").stdout).name == "Set"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ((), "variable 'NAME' has no value"),
        (("NAME=Set",), "cep deploy … --set LEAST=VALUE"),
        (("NAME=Set", "LEAST=1", "MOST=2"), "--set MOST: there is no ${MOST} in "),
        (("NAME=Set", "NOWHERE_SET"), "NOWHERE_SET is not in the environment; write NOWHERE_SET=VALUE"),
    ],
)
def test_variables_without_values_and_values_without_variables_are_told(
    variable_plan: str, values: tuple[str, ...], words: str
) -> None:
    result = run("validate", variable_plan, *(part for value in values for part in ("--set", value)))
    assert result.exit_code != 0
    assert words in result.output


@pytest.mark.parametrize("command", ["validate", "query-plan", "deploy"])
def test_what_is_no_text_is_told_without_a_traceback(
    command: str, tmp_path: Path, variable_plan: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "latin.siddhiql"
    file.write_bytes(b"-- \xff")
    result = run(command, str(file))
    assert result.exit_code == 2
    assert "is not text in UTF-8: invalid start byte at byte 3" in result.output
    monkeypatch.setenv("LEAST", "\udcff")
    result = run(command, variable_plan, "--set", "LEAST")
    assert result.exit_code == 2
    assert "the value of LEAST is not text in UTF-8" in result.output


def test_findings_as_json_are_one_object_on_stdout(wrong_plan: str) -> None:
    result = run("validate", "--json", wrong_plan)

    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["valid"] is False
    assert [(one["severity"], one["line"], one["column"]) for one in report["findings"]] == [
        ("error", 6, 8),
        ("error", 7, 8),
    ]
    assert all(one["code"] and one["message"] for one in report["findings"])


def test_a_file_that_is_not_there_is_a_fault_of_usage() -> None:
    result = run("validate", "no-such.siddhiql")

    assert result.exit_code == 2
    assert "no-such.siddhiql" in result.stderr


# ---- query-plan


def test_the_query_plan_of_the_sample_is_printed_as_xml_that_can_be_read_back() -> None:
    result = run("query-plan", str(FLIGHTS))

    assert result.exit_code == 0
    plan = read_xml(result.stdout)
    assert plan.name == "KnockOnDelays"
    assert [(stage.name, stage.parallel) for stage in plan.processors] == [
        ("carriers", 1),
        ("aircraft", 1),
        ("lateness", 2),
        ("storms", 1),
    ]


def test_the_query_plan_can_be_explained_in_words() -> None:
    result = run("query-plan", "--explain", str(FLIGHTS))

    assert result.exit_code == 0
    assert "<" not in result.stdout
    assert all(name in result.stdout for name in ("carriers", "aircraft", "lateness", "storms"))


def test_no_query_plan_is_printed_of_a_plan_with_errors(wrong_plan: str) -> None:
    result = run("query-plan", wrong_plan)

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "line 6, column 8" in result.stderr


# ---- simulate

APP = "@app:playback define stream S (a int); @info(name='q') from S[a > 1] select a insert into O;"


def case(name: str, feature: str, expected: list[Any]) -> dict[str, Any]:
    return {
        "id": name,
        "feature": feature,
        "app": APP,
        "events": [{"stream": "S", "timestamp": 1_000 + a, "data": [a]} for a in (1, 2, 3)],
        "listen": {"streams": ["O"], "queries": []},
        "expect": {"streams": {"O": expected}, "schemas": {"O": [["a", "int"]]}},
    }


RIGHT = case("right", "filter.int", [[1_002, [2]], [1_003, [3]]])
MISSING = case("missing", "filter.other", [[1_001, [1]], [1_002, [2]], [1_003, [3]]])


def write_cases(folder: Path, *cases: dict[str, Any]) -> str:
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in cases), encoding="utf-8")
    return str(file)


def test_cases_that_pass_are_counted_by_feature(tmp_path: Path) -> None:
    result = run("simulate", write_cases(tmp_path, RIGHT))

    assert result.exit_code == 0
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["filter.int", "1", "of", "1", "pass"],
        ["all", "1", "of", "1", "pass"],
    ]


def test_differences_are_shown_and_the_last_line_of_json_names_the_failed(tmp_path: Path) -> None:
    result = run("simulate", "--json", write_cases(tmp_path, RIGHT, MISSING))

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "missing: differs"
    assert lines[1].startswith("  ")
    assert json.loads(lines[-1]) == {"cases": 2, "passed": 1, "failed": ["missing"]}


def test_results_go_to_a_file_one_object_a_line(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"

    run("simulate", "--out", str(out), write_cases(tmp_path, RIGHT, MISSING))

    results = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(one["id"], one["passed"], bool(one["differences"])) for one in results] == [
        ("right", True, False),
        ("missing", False, True),
    ]


@pytest.mark.parametrize("rows", ["1", "2"])
def test_the_size_of_batches_changes_no_answer(tmp_path: Path, rows: str) -> None:
    assert run("simulate", "--batch-rows", rows, write_cases(tmp_path, RIGHT)).exit_code == 0


@pytest.mark.parametrize(
    "line", ["{nonsense", '"text"', '{"id": "no app"}', '{"id": "x", "app": "", "events": [], "listen": ["O"]}']
)
def test_a_line_that_is_no_case_is_named_and_the_others_run(tmp_path: Path, line: str) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(f"{line}\n{json.dumps(RIGHT)}\n", encoding="utf-8")

    result = run("simulate", str(file))

    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit), "no traceback"
    assert f"{file}: line 1" in result.stderr
    assert "malformed" in result.stdout
    assert result.stdout.splitlines()[-1].split() == ["all", "1", "of", "2", "pass"]


def changed(name: str, **changes: Any) -> dict[str, Any]:
    return {**case(name, "broken", []), **changes}


def event(**changes: Any) -> list[dict[str, Any]]:
    return [{"stream": "S", "timestamp": 1, "data": [1], **changes}]


BROKEN = [
    (changed("few", events=event(data=[])), "event 1: has 0 values, but 'S' has 1 (a int)"),
    (changed("many", events=event(data=[1, 2])), "event 1: has 2 values, but 'S' has 1 (a int)"),
    (changed("text", events=event(data=["x"])), 'event 1: a: "x" is not int'),
    (changed("large", events=event(data=[2**31])), "event 1: a: 2147483648 is not int"),
    (changed("true", events=event(data=[True])), "event 1: a: true is not int"),
    (changed("fraction", events=event(data=[1.5])), "event 1: a: 1.5 is not int"),
    (changed("stream", events=event(stream="T")), 'event 1: stream "T" is not a stream of the app'),
    (changed("no-stream", events=[{"timestamp": 1, "data": [1]}]), "event 1: stream null is not a stream of the app"),
    (changed("no-time", events=[{"stream": "S", "data": [1]}]), "event 1: has no timestamp"),
    (changed("time", events=event(timestamp="now")), "event 1: timestamp must be a whole number"),
    (changed("nothing", events=[{}]), "event 1: has neither stream and data"),
    (changed("number", events=[7]), "event 1: must be a JSON object"),
    (
        changed("batch", events=[{"stream": "S", "batch": [{"timestamp": 1, "data": []}]}]),
        "event 1: batch, row 1: has 0",
    ),
    (changed("empty-batch", events=[{"stream": "S", "batch": []}]), "event 1: batch must be a list of events"),
    (changed("advance", events=[{"advance_time": "1 sec"}]), "event 1: advance_time must be a whole number"),
    (changed("query", listen={"streams": [], "queries": ["p"]}), "no query is called 'p'"),
    (changed("expect", expect=None), "expect must contain the results"),
    (changed("rows", expect={"streams": {"O": [[1]]}}), "expect.streams.O must be a list of rows"),
    (changed("unheard", expect={"queries": {"q": {"in": [], "removed": []}}}), "listen.queries does not"),
    (changed("events", events={}), "events must be a list"),
    (changed("app", app=None), "app must be a text"),
]


@pytest.mark.parametrize(("broken", "reason"), BROKEN, ids=[one["id"] for one, _ in BROKEN])
def test_a_malformed_case_fails_with_its_reason_and_the_others_run(
    tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    result = run("simulate", "--json", write_cases(tmp_path, broken, RIGHT))

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == f"{broken['id']}: malformed"
    assert reason in lines[1]
    assert json.loads(lines[-1]) == {"cases": 2, "passed": 1, "failed": [broken["id"]]}


def test_a_failure_of_the_engine_is_that_of_its_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from siddhi.engine.app_runtime import AppRuntime  # noqa: PLC0415 - the engine loads for a while

    advance = AppRuntime.advance_time

    def fail_at_seven(runtime: AppRuntime, clock: int) -> None:
        if clock == 7:
            raise KeyError("t")
        advance(runtime, clock)

    monkeypatch.setattr(AppRuntime, "advance_time", fail_at_seven)

    result = run("simulate", write_cases(tmp_path, changed("crash", events=[{"advance_time": 7}]), RIGHT))

    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert lines[0] == "crash: the engine failed"
    assert lines[1].startswith("  KeyError: 't' (")
    assert lines[-1].split() == ["all", "1", "of", "2", "pass"]


def test_several_files_and_folders_are_run(tmp_path: Path) -> None:
    inner = tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "folder" / "notes.txt").write_text("not a case", encoding="utf-8")
    write_cases(tmp_path / "folder", RIGHT)
    packed = lzma.compress(f"{json.dumps(MISSING)}\n".encode())
    (inner / "packed.jsonl.xz").write_bytes(packed)
    (inner / "torn.jsonl.xz").write_bytes(packed[:-20])
    single = write_cases(tmp_path, RIGHT)

    result = run("simulate", "--json", single, str(tmp_path / "folder"))

    assert result.exit_code == 1
    counts = json.loads(result.stdout.splitlines()[-1])
    assert (counts["cases"], counts["passed"]) == (5, 2), "the torn file gives the case in front of the tear"
    assert counts["failed"][0] == "missing"
    assert f"{inner / 'torn.jsonl.xz'}: line 2: the file cannot be read" in result.stdout
    assert f"{inner / 'packed.jsonl.xz'}: missing: differs" in result.stdout


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    result = run("simulate", str(tmp_path))

    assert result.exit_code == 1
    assert "no file in this folder is called *.jsonl" in result.stderr


# ---- help


def test_every_verb_says_what_it_does() -> None:
    listed = run("--help").stdout

    for verb in VERBS:
        result = run(verb, "--help")
        assert result.exit_code == 0
        assert result.stdout.startswith(f"Usage: main {verb}")
        assert verb in listed


def test_an_unknown_verb_is_a_fault_of_usage() -> None:
    assert run("deplyo").exit_code == 2
