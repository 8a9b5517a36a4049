"""A message of very many frames is dropped, and the next one is read."""

from __future__ import annotations

from typing import Any

import pytest
import zmq

from cep_common.security.roles import SocketKind
from cep_common.sockets import transport
from cep_common.sockets.transport import MOST_BYTES_IN_ALL, MOST_FRAMES, listening_socket, receive, receive_now


@pytest.mark.parametrize(
    "frames", [[b""] * (MOST_FRAMES + 1), [b"x" * 1_000] * (MOST_BYTES_IN_ALL + 1)], ids=["many", "large"]
)
def test_a_message_of_very_many_frames_is_dropped(
    zmq_context: zmq.Context[Any], frames: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(transport.paced_logger, "problem", lambda _, message, *__: told.append(message))
    listening = listening_socket(zmq_context, SocketKind.CONTROL, "127.0.0.1", 1_000)
    port = listening.bind_to_random_port("tcp://127.0.0.1")
    sender = zmq_context.socket(zmq.DEALER)
    sender.connect(f"tcp://127.0.0.1:{port}")
    try:
        sender.send_multipart(frames)
        sender.send_multipart([b"a", b"b"])
        peer, *left = receive(listening)
        assert (left, len(told)) == ([], 1)
        assert listening.poll(5_000)
        assert receive_now(listening) == [peer, b"a", b"b"]
        assert receive_now(listening) is None
    finally:
        sender.close(linger=0)
        listening.close(linger=0)
