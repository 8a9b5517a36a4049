"""Sources of type `file` that deal with files one by one: folders, files that are one body, moved and deleted ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from worker_world import PLAN, World, until

from cep_common.protocol.registry import Connector, DeployedPlan
from cep_worker.config import FileSourcesConfig
from cep_worker.sources.file_regex import RegexSplitter

LINE = '{"_timestamp": %d, "carrier": "UA", "dep_delay": 5, "price": 1.5}\n'


def row(number: int) -> tuple[int, str, int, float]:
    return (number, "UA", 5, 1.5)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def world(make_world: Callable[..., World], folder: Path) -> World:
    allowed = FileSourcesConfig((str(folder.parent),), str(folder.parent / "positions"))
    return make_world(file_sources=allowed)


def write(path: Path, text: str) -> None:
    """A file that was written a while ago."""
    path.write_text(text)
    then = time.time() - 60
    os.utime(path, (then, then))


def reading(options: dict[str, str], mapper: str = "json", **mapped: str) -> DeployedPlan:
    given = {"file.polling.interval": "20", "dir.polling.interval": "20", **options}
    return msgspec.structs.replace(PLAN, sources=(Connector("Departures", "file", given, mapper, mapped),))


def test_the_files_of_a_folder_are_read_one_after_the_other_and_moved(world: World, folder: Path) -> None:
    write(folder / "a.log", LINE % 1 + LINE % 2)
    write(folder / "b.tmp", LINE % 9)
    done = folder.parent / "done"
    world.start(reading({
        "dir.uri": f"file:{folder}", "file.name.pattern": r".*\.log", "action.after.process": "move",
        "move.after.process": f"file://{done}",
    }))  # fmt: skip
    receiver = world.connected_receiver()
    until(lambda: len(receiver.rows()) == 2 and (done / "a.log").exists(), receiver)
    write(folder / "a.log", LINE % 3)
    until(lambda: len(receiver.rows()) == 3 and (done / "a.log.1").exists(), receiver)
    assert receiver.rows() == [row(1), row(2), row(3)]
    assert [one.name for one in folder.iterdir()] == ["b.tmp"]


def test_the_files_of_a_folder_that_stay_are_read_once(world: World, folder: Path) -> None:
    write(folder / "a.log", LINE % 1)
    world.start(reading({"dir.uri": str(folder)}))
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    write(folder / "b.log", LINE % 2)
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.rows() == [row(1), row(2)]


@pytest.mark.parametrize("mode", ["text.full", "BINARY.FULL"])
def test_a_whole_file_is_one_body_and_is_deleted(world: World, folder: Path, mode: str) -> None:
    text = '[{"event": {"_timestamp": 1, "carrier": "UA",\n"dep_delay": 5, "price": 1.5}}]'
    write(folder / "a.json", text)
    write(folder / "b.json", "nonsense")
    options = {"dir.uri": str(folder), "mode": mode, "action.after.process": "delete", "action.after.failure": "move"}
    world.start(reading(options | {"move.after.failure": str(folder.parent / "bad")}))
    receiver = world.connected_receiver()
    until(lambda: receiver.rows() and (folder.parent / "bad" / "b.json").exists(), receiver)
    assert receiver.rows() == [row(1)]
    assert list(folder.iterdir()) == []
    until(lambda: "b.json: the body is not JSON" in str(world.health()["plans"][0]["last_error"]), receiver)


def test_a_single_file_is_deleted_once_it_is_read(world: World, folder: Path) -> None:
    path = folder / "a.log"
    write(path, LINE % 1)
    world.start(reading({"file.uri": str(path), "action.after.process": "DELETE", "tailing": "false"}))
    receiver = world.connected_receiver()
    until(lambda: receiver.rows() and not path.exists(), receiver)
    write(path, LINE % 2)
    until(lambda: len(receiver.rows()) == 2 and not path.exists(), receiver)


def test_expressions_part_a_file_that_grows(world: World, folder: Path) -> None:
    path = folder / "a.txt"
    path.write_text("head <e>UA 5\n1.5</e> between <e>AA 6")
    options = {"file.uri": str(path), "mode": "regex", "begin.regex": "<e>", "end.regex": "</e>"}
    pattern = {"regex.A": r"(\w+) (\d+)\s([\d.]+)"}
    attributes = {"attributes.carrier": "A[1]", "attributes.dep_delay": "A[2]", "attributes.price": "A[3]"}
    world.start(reading(options | {"timestamp": "dep_delay"}, "text", **pattern, **attributes))
    receiver = world.connected_receiver()
    until(receiver.rows, receiver)
    with path.open("a") as file:
        file.write("\n2.5</e> tail")
    until(lambda: len(receiver.rows()) == 2, receiver)
    assert receiver.rows() == [(5, "UA", 5, 1.5), (6, "AA", 6, 2.5)]


@pytest.mark.parametrize(
    ("begin", "end", "whole", "pieces"),
    [
        ("<a>", "</a>", 16, ["<a>1</a>", "<a>2</a>"]),
        ("<a>", "", 19, ["<a>1</a>", "<a>2</a>xx ", "<a>3"]),
        ("", "</a>", 16, ["<a>1</a>", "<a>2</a>"]),
    ],
)
def test_pieces_lie_between_one_or_two_expressions(begin: str, end: str, whole: int, pieces: list[str]) -> None:
    cutter = RegexSplitter(begin, end)
    data = b"<a>1</a><a>2</a>xx <a>3"
    assert cutter.whole(data) == whole
    assert [one.decode() for one in cutter.pieces(data)] == pieces
