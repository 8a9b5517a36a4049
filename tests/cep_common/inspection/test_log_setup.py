"""The log of a process goes to standard error, into memory and into a file, without secrets."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep_common.errors import ConfigError
from cep_common.inspection.config import LogConfig
from cep_common.inspection.log_setup import log_file, start_log
from cep_common.protocol.inspection import ReadLog

logger = logging.getLogger("cep_test")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level, hook = root.handlers[:], root.level, threading.excepthook
    root.handlers[:] = []  # those of pytest are not to be closed
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:], threading.excepthook = handlers, hook
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_no_secret_gets_anywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ring = start_log(LogConfig(folder=str(tmp_path)), "worker-w1")
    logger.info("connecting: url=%s", "postgresql://cep:hunter2@db/cep")
    written = capsys.readouterr().err, log_file(str(tmp_path), "worker-w1").read_text()
    for text in (*written, ring.read(ReadLog("r")).records[0].text):
        assert "connecting: url=postgresql://cep:•••@db/cep" in text


def test_a_file_holds_records_as_json_and_is_rotated(tmp_path: Path) -> None:
    start_log(LogConfig(folder=str(tmp_path), file_bytes=65_536, files=2), "driver-d")
    for number in range(400):
        logger.warning("%d %s", number, "x" * 400)
    path = log_file(str(tmp_path), "driver-d")
    lines = path.read_text().splitlines()
    assert json.loads(lines[-1])["text"].startswith("399 ")
    assert json.loads(lines[-1])["level"] == "WARNING"
    assert sorted(one.name for one in tmp_path.iterdir()) == [path.name, f"{path.name}.1"]
    assert path.stat().st_size <= 65_536


def test_no_text_from_outside_makes_a_line_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forged = "2026-01-01 00:00:00,000 ERROR root it burns"
    start_log(LogConfig(folder=str(tmp_path)), "worker-w1")
    for between in ("\n", "\r", "\x0b", "\x1c", "\x85", "\u2028", "\x1b[2K\x1b[1G"):
        logger.warning("refused: name=%s", f"x{between}{forged}")
        try:
            int(f"x{between}{forged}")
        except ValueError:
            logger.exception("failed")
    written = capsys.readouterr().err
    assert len(written.splitlines()) == len(written.split("\n")) - 1
    assert "\x1b" not in written
    assert not [line for line in written.splitlines() if line.startswith(forged[:10])  and "it burns" in line
                and "refused" not in line]  # fmt: skip
    assert "refused: name=x\\n2026" in written
    assert "\n  ValueError: invalid" in written
    records = log_file(str(tmp_path), "worker-w1").read_text().split("\n")
    assert all(json.loads(line) for line in records if line)


def test_no_name_leads_out_of_the_folder() -> None:
    assert log_file("logs", "worker-../../etc/passwd") == Path("logs/worker-..%2F..%2Fetc%2Fpasswd.log.ndjson")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"log\.folder: .*file.* cannot be written"):
        start_log(LogConfig(folder=str(tmp_path / "file")), "w")


def test_a_thread_that_ends_by_an_error_says_so() -> None:
    ring = start_log(LogConfig(), "w")

    def fail() -> None:
        raise ValueError("broken")

    thread = threading.Thread(target=fail, name="doomed")
    thread.start()
    thread.join()
    (record,) = ring.read(ReadLog("r")).records
    assert (record.level, record.text) == ("ERROR", "thread ended by an error: thread=doomed")
    assert "ValueError: broken" in record.traceback


def test_a_log_that_is_begun_anew_tells_nothing_of_before() -> None:
    start_log(LogConfig(), "w")
    logger.info("of an earlier task")
    ring = start_log(LogConfig(), "w")
    logger.info("of this one")
    assert [record.text for record in ring.read(ReadLog("r")).records] == ["of this one"]
    assert sum(getattr(handler, "stream", None) is sys.stderr for handler in logging.getLogger().handlers) == 1
