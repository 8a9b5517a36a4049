"""Managers, and nobody else, read a process's log at its door."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from cep_common.inspection.config import LogConfig
from cep_common.inspection.endpoint import Inspection, InspectionEndpoint, open_inspection
from cep_common.inspection.log_buffer import LogBuffer
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, decode, encode
from cep_common.protocol.inspection import ConfigurationRead, LogRead, ReadConfiguration, ReadLog, Setting
from cep_common.protocol.registry import ListPlans, Message, Rejected
from cep_common.security.config import SecurityConfig
from cep_common.security.context import GuardedContext, open_context
from cep_common.security.keys import write_keys
from cep_common.security.roles import INSPECTION_SOCKETS, Role
from cep_common.sockets.transport import connecting_socket

SETTING = Setting("http.port", "9080", "9080")


@pytest.fixture
def insight() -> Inspection:
    ring = LogBuffer(100_000)
    ring.handle(logging.makeLogRecord({"name": "w", "msg": "started", "levelno": logging.INFO}))
    return Inspection(ring, (SETTING,))


@pytest.fixture
def context() -> Iterator[GuardedContext]:
    with open_context(SecurityConfig(), Role.WORKER) as context:
        yield context
        context.destroy(linger=0)


def ask(
    context: GuardedContext, door: InspectionEndpoint, role: Role, message: Message, within_ms: int = 5_000
) -> Message | None:
    with connecting_socket(context, INSPECTION_SOCKETS[role], MAXIMUM_CONTROL_BYTES) as socket:
        socket.connect(door.address.endpoint.url())
        socket.send_multipart(encode(message, b"1"))
        return decode(socket.recv_multipart()).message if socket.poll(within_ms) else None


def test_log_and_configuration_are_told_to_who_names_the_run(context: GuardedContext, insight: Inspection) -> None:
    door = open_inspection(context, Role.WORKER, "127.0.0.1", LogConfig(), insight, advertised_host="localhost")
    assert door is not None
    run = door.address.run
    assert door.address.endpoint.host == "localhost"
    read = ask(context, door, Role.WORKER, ReadLog(run))
    assert isinstance(read, LogRead)
    assert [record.text for record in read.records] == ["started"]
    assert ask(context, door, Role.WORKER, ReadConfiguration(run)) == ConfigurationRead((SETTING,))
    for message, code in (
        (ReadLog("another"), "other-run"),
        (ReadConfiguration(""), "other-run"),
        (ListPlans(), "unexpected-message"),
    ):
        answer = ask(context, door, Role.WORKER, message)
        assert isinstance(answer, Rejected)
        assert answer.code == code
    door.close()


def test_a_question_that_cannot_be_answered_ends_nothing(
    context: GuardedContext, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Inspection(LogBuffer(100_000), (Setting("wal.folder", chr(0xD800), ""),))
    door = open_inspection(context, Role.WORKER, "127.0.0.1", LogConfig(), broken)
    assert door is not None
    answer = ask(context, door, Role.WORKER, ReadConfiguration(door.address.run))
    assert isinstance(answer, Rejected)
    assert (answer.code, answer.reason.split(";")[0]) == ("internal", "UnicodeEncodeError")
    assert [one.getMessage() for one in caplog.records] == [
        "a manager's request could not be answered: request=read-configuration"
    ]
    assert isinstance(ask(context, door, Role.WORKER, ReadLog(door.address.run)), LogRead)
    door.close()


def test_a_process_without_a_free_port_works_without_a_door(
    context: GuardedContext, insight: Inspection, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_inspection(context, Role.WORKER, "127.0.0.1", LogConfig(), insight)
    assert first is not None
    port = first.address.endpoint.port
    taken = LogConfig(first_port=port, last_port=port)
    assert open_inspection(context, Role.WORKER, "127.0.0.1", taken, insight) is None
    assert "managers cannot read this process's log" in caplog.text
    first.close()


def test_no_other_role_than_a_manager_is_let_in(tmp_path: Path, insight: Inspection) -> None:
    write_keys(tmp_path)
    security = SecurityConfig(keys=str(tmp_path))
    contexts = {role: open_context(security, role) for role in (Role.STAGE, Role.MANAGER, Role.WORKER, Role.CLIENT)}
    door = InspectionEndpoint(contexts[Role.STAGE], Role.STAGE, "127.0.0.1", LogConfig(), insight)
    door.start()
    message = ReadLog(door.address.run)
    assert isinstance(ask(contexts[Role.MANAGER], door, Role.STAGE, message), LogRead)
    for role in (Role.WORKER, Role.CLIENT, Role.STAGE):
        assert ask(contexts[role], door, Role.STAGE, message, within_ms=300) is None
    door.close()
    for context in contexts.values():
        context.destroy(linger=0)


def test_a_door_of_another_role_is_not_opened(tmp_path: Path, insight: Inspection) -> None:
    write_keys(tmp_path)
    context = open_context(SecurityConfig(keys=str(tmp_path)), Role.WORKER)
    with pytest.raises(Exception, match="does not listen for"):
        InspectionEndpoint(context, Role.DRIVER, "127.0.0.1", LogConfig(), insight)
    context.destroy(linger=0)
