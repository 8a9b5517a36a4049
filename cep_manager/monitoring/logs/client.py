"""Asks processes at their inspection endpoints: all at once, for a bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec
import zmq

from cep_common.errors import CepError, DecodeError
from cep_common.ids import Endpoint
from cep_common.protocol.codec import MAXIMUM_CONTROL_BYTES, decode, encode
from cep_common.protocol.registry import Message, Rejected
from cep_common.security.roles import INSPECTION_SOCKETS, Role
from cep_common.sockets.transport import connecting_socket


class ProcessQuestion(msgspec.Struct, frozen=True):
    """A request to a process of `role` at `endpoint`, and its timeout."""

    role: Role
    endpoint: Endpoint
    message: Message
    timeout_ms: int


class NoAnswer(msgspec.Struct, frozen=True):
    """Why there is no result: `hung` when no answer came in time, `code` if the answer was a refusal."""

    problem: str
    hung: bool = False
    code: str = ""


Ask = Callable[[Sequence[ProcessQuestion]], list[Message | NoAnswer]]
"""Puts questions to processes at the same time; the answers are in their order."""


def asking(context: zmq.Context[Any]) -> Ask:
    """Ask over sockets of `context`; any thread may."""

    def ask(questions: Sequence[ProcessQuestion]) -> list[Message | NoAnswer]:
        answers: list[Message | NoAnswer] = [_none(question) for question in questions]
        with ExitStack() as opened:
            waiting: dict[Any, int] = {}
            for number, question in enumerate(questions):
                try:
                    socket = connecting_socket(context, INSPECTION_SOCKETS[question.role], MAXIMUM_CONTROL_BYTES)
                    opened.callback(socket.close)
                    socket.connect(question.endpoint.url())
                    socket.send_multipart(encode(question.message, number.to_bytes(4, "big")), flags=zmq.NOBLOCK)
                except (zmq.ZMQError, CepError) as error:
                    answers[number] = NoAnswer(f"cannot be asked: {error}")
                    continue
                waiting[socket] = number
            _collect(waiting, questions, answers)
        return answers

    return ask


def _collect(waiting: dict[Any, int], questions: Sequence[ProcessQuestion], answers: list[Message | NoAnswer]) -> None:
    """Put into `answers` what comes over the sockets in time."""
    began = time.monotonic()
    poller = zmq.Poller()
    for socket in waiting:
        poller.register(socket, zmq.POLLIN)
    while waiting:
        passed_ms = int((time.monotonic() - began) * 1_000)
        for socket in [one for one, number in waiting.items() if questions[number].timeout_ms <= passed_ms]:
            poller.unregister(socket)
            del waiting[socket]
        if not waiting:
            return
        left_ms = min(questions[number].timeout_ms for number in waiting.values()) - passed_ms
        for socket, _ in poller.poll(left_ms):
            answers[waiting[socket]] = _received(socket)
            poller.unregister(socket)
            del waiting[socket]


def _received(socket: Any) -> Message | NoAnswer:
    try:
        message = decode(socket.recv_multipart()).message
    except DecodeError as error:
        return NoAnswer(f"its answer cannot be read: {error}")
    return NoAnswer(message.reason, code=message.code) if isinstance(message, Rejected) else message


def _none(question: ProcessQuestion) -> NoAnswer:
    where = f"{question.endpoint.host}:{question.endpoint.port}"
    return NoAnswer(f"did not answer at {where} within {question.timeout_ms / 1_000:g} s", hung=True)
