"""Sources of type `file` in front of a real worker: what comes in, what is left out, and where reading continues."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from worker_world import PLAN, World, until

from cep_common.ids import PlanKey
from cep_common.protocol.registry import Connector, DeployedPlan
from cep_worker.config import ArtefactConfig, FileSourcesConfig

LINE = '{"_timestamp": %d, "carrier": "UA", "dep_delay": 5, "price": 1.5}\n'


def row(number: int) -> tuple[int, str, int, float]:
    return (number, "UA", 5, 1.5)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in" / "departures.log"


@pytest.fixture
def world(make_world: Callable[..., World], path: Path) -> World:
    return make_world(file_sources=config(path))


def config(path: Path) -> FileSourcesConfig:
    return FileSourcesConfig((str(path.parent),), str(path.parents[1] / "positions"))


def with_file(path: Path, mapper: str = "json", options: dict[str, str] | None = None, **mapped: str) -> DeployedPlan:
    given = {"file.uri": f"file://{path}", "file.polling.interval": "10", **(options or {})}
    return msgspec.structs.replace(PLAN, sources=(Connector("Departures", "file", given, mapper, mapped),))


def append(path: Path, *texts: str) -> None:
    with path.open("a") as file:
        file.writelines(texts)


def problem(world: World) -> str:
    return str(world.health()["plans"][0]["last_error"])


def test_lines_are_read_under_all_names_that_siddhi_has_for_it(world: World, path: Path) -> None:
    append(path, LINE % 1)
    world.start(with_file(path, options={"mode": "regex", "action.after.process": "NONE"}))
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    assert receiver.rows() == [row(1)]


def test_each_line_is_an_event_also_of_lines_that_come_later(world: World, path: Path) -> None:
    append(path, LINE % 1, "\n", LINE % 2)
    world.start(with_file(path))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    append(path, LINE % 3)
    until(lambda: len(receiver.rows()) == 3, receiver)
    assert receiver.rows() == [row(1), row(2), row(3)]


def test_another_worker_process_goes_on_where_the_former_stopped(make_world: Callable[..., World], path: Path) -> None:
    first = make_world(file_sources=config(path))
    append(path, LINE % 1)
    first.start(with_file(path))
    receiver = first.connected_receiver()
    until(receiver.rows, receiver)
    positions = path.parents[1] / "positions"
    until(lambda: any(b'"lines":1' in kept.read_bytes() for kept in positions.glob("*.json")), receiver)
    assert first.worker is not None
    first.worker.stop()
    first.worker = None
    append(path, LINE % 2)
    second = make_world(file_sources=config(path))
    second.start(with_file(path))
    receiver = second.connected_receiver()
    until(lambda: row(2) in receiver.rows(), receiver)
    assert receiver.rows().count(row(1)) <= 1, "it may be in the log, but is not read again"


def test_lines_that_do_not_fit_are_left_out_and_told(world: World, path: Path) -> None:
    append(path, LINE % 1, "nonsense\n", LINE % 3, '{"carrier": "UA", "dep_delay": "5", "price": 1.5}\n')
    world.start(with_file(path))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.rows() == [row(1), row(3)]
    until(lambda: "skipped lines so far: 2" in problem(world), receiver)
    assert f"{path}, line 2: " in problem(world)


def test_a_csv_file_may_have_a_header_and_is_read_once(world: World, path: Path) -> None:
    append(path, "carrier,dep_delay,price\n", "UA,5,1.5\n", '"AA, too",6,2.5')
    options = {"header.present": "true", "tailing": "false", "timestamp": "dep_delay"}
    world.start(with_file(path, "csv", options))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.rows() == [(5, "UA", 5, 1.5), (6, "AA, too", 6, 2.5)]


def test_a_header_of_the_mapper_is_the_first_line_of_the_file_alone(world: World, path: Path) -> None:
    append(path, "carrier,dep_delay,price\n", "UA,5,1.5\n")
    world.start(with_file(path, "csv", {"timestamp": "dep_delay"}, **{"header.present": "true"}))
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    append(path, "UA,6,1.5\n")
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert [row[0] for row in receiver.rows()] == [5, 6]


def test_a_line_may_be_matched_by_regular_expressions(world: World, path: Path) -> None:
    append(path, "UA late by 5 for 1.5\n", "something else\n")
    groups = {"carrier": "A[1]", "dep_delay": "A[2]", "price": "A[3]"}
    mapped = {"regex.A": r"(\w+) late by (\d+) for ([\d.]+)", **{f"attributes.{k}": v for k, v in groups.items()}}
    world.start(with_file(path, "text", {"timestamp": "dep_delay"}, **mapped))
    receiver = world.connected_receiver()
    until(lambda: receiver.rows() and "line 2" in problem(world), receiver)
    assert receiver.rows() == [(5, "UA", 5, 1.5)]


def test_a_quote_that_nobody_closes_takes_no_other_line_along(world: World, path: Path) -> None:
    append(path, '"UA,5,1.5\n', "AA,6,1.5\n", 'BA,7",1.5\n', "CA,8,1.5\n")
    world.start(with_file(path, "csv", {"timestamp": "dep_delay"}))
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2 and "skipped lines so far: 2" in problem(world), receiver)
    assert [row[1] for row in receiver.rows()] == ["AA", "CA"]


def test_tenants_with_plans_of_one_name_get_what_their_files_tell(world: World, path: Path) -> None:
    append(path, LINE % 1)
    plan = with_file(path)
    other = msgspec.structs.replace(plan, key=PlanKey(7, PLAN.key.plan))
    world.start(plan, other)
    receiver = world.receiver()
    until(lambda: len(receiver.rows()) == 2, receiver)
    until(lambda: sum(plan.inflow[0].sent_events for plan in world.reports()) == 2, receiver)
    assert [plan.inflow[0].sent_events for plan in world.reports()] == [1, 1]


def test_nothing_is_read_on_while_the_position_cannot_be_kept(world: World, path: Path) -> None:
    positions = path.parents[1] / "positions"
    append(path, LINE % 1)
    world.start(with_file(path))
    receiver = world.connected_receiver()
    until(lambda: list(positions.glob("*.json")), receiver)
    (kept,) = positions.glob("*.json")
    kept.with_name(f"{kept.name}.new").mkdir()
    append(path, LINE % 2)
    until(lambda: "cannot be written" in problem(world), receiver)
    append(path, LINE % 3)
    kept.with_name(f"{kept.name}.new").rmdir()
    until(lambda: len(receiver.rows()) >= 3 and not problem(world), receiver)
    assert receiver.rows() == [row(1), row(2), row(3)]


def test_what_cannot_be_read_is_told_until_it_can_and_logged_once(
    world: World, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "cep_worker.sources.file")
    path.symlink_to(path)
    world.start(with_file(path))
    receiver = world.connected_receiver()
    until(lambda: "cannot be read" in problem(world), receiver)
    path.unlink()
    append(path, LINE % 1)
    until(lambda: receiver.rows() == [row(1)] and not problem(world), receiver)
    records = [record for record in caplog.records if record.name == "cep_worker.sources.file"]
    assert [record.getMessage().partition(":")[0] for record in records] == [
        "following file",
        f"{path} cannot be read",
    ]


def test_a_defect_of_ours_is_told_with_its_trace_and_does_not_end_the_source(
    world: World, path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[int] = []

    def fail(*_: object) -> None:
        failed.append(1)
        raise RuntimeError("unforeseen")

    append(path, LINE % 1)
    with monkeypatch.context() as patched:
        patched.setattr("cep_worker.sources.file.LineEvents.read", fail)
        world.start(with_file(path))
        receiver = world.connected_receiver()
        until(lambda: len(failed) > 3 and "RuntimeError: unforeseen" in problem(world), receiver)
    until(receiver.rows, receiver)
    assert len([record for record in caplog.records if record.exc_info and "unforeseen" in record.getMessage()]) == 1


def test_a_plan_reads_no_file_that_the_worker_does_not_name(make_world: Callable[..., World], path: Path) -> None:
    append(path, LINE % 1)
    (path.parent / "secret").symlink_to("/etc")
    world = make_world(file_sources=config(path))
    world.start(with_file(path.parent / "secret" / "passwd"))
    until(lambda: "name them in file_sources.folders" in problem(world))


def test_an_artefact_may_name_any_file(make_world: Callable[..., World], path: Path, tmp_path: Path) -> None:
    append(path, LINE % 1)
    artefacts = tmp_path / "artefacts"
    artefacts.mkdir()
    text = f"stream: Departures:1.0.0\ntype: file\noptions: {{file.uri: {path}}}\nmap: {{type: json}}\n"
    (artefacts / "in.yaml").write_text(text)
    positions = FileSourcesConfig(positions=str(tmp_path / "positions"))
    world = make_world(artefacts=ArtefactConfig(sources=str(artefacts)), file_sources=positions)
    world.start(PLAN)
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    assert receiver.rows() == [row(1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "BYTES"}, "mode: must be LINE or REGEX or TEXT.FULL or BINARY.FULL, not 'BYTES'"),
        ({"mode": "TEXT.FULL", "tailing": "true"}, "tailing: is for the modes LINE and REGEX"),
        ({"action.after.process": "MOVE"}, "action.after.process: 'move' needs move.after.process"),
        (
            {"action.after.process": "move", "move.after.process": "/else"},
            "move.after.process: /else is in none of the",
        ),
        ({"mode": "REGEX", "begin.regex": "("}, "begin.regex: is not a regular expression"),
        ({"dir.uri": "file:/var/cep"}, "needs file.uri or dir.uri, and only one of them"),
        ({"timestamp": "carrier"}, "timestamp: carrier is string"),
        ({"file.polling.interval": "0"}, "file.polling.interval: expected"),
    ],
)
def test_options_that_cannot_be_used_are_told(world: World, path: Path, options: dict[str, str], message: str) -> None:
    world.start(with_file(path, options=options))
    until(lambda: message in problem(world))
