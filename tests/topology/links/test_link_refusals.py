"""Which refusals mean that the client connects again, and which that it asked for or sent something wrong."""

from __future__ import annotations

import pytest

from cep_common.errors import InputError, PeerError
from cep_common.protocol.registry import Rejected
from topology.links.refusals import refusal_error


@pytest.mark.parametrize("code", ["leaving", "starting", "link-unknown", "link-expired"])
def test_a_worker_that_ends_the_connection_is_a_lost_peer(code: str) -> None:
    error = refusal_error(Rejected(code, "the worker is shutting down"), "10.0.0.1:7611")
    assert isinstance(error, PeerError)
    assert error.message == f"the worker at 10.0.0.1:7611 ended the connection: the worker is shutting down [{code}]"


@pytest.mark.parametrize(
    ("code", "reason_code"),
    [
        ("unknown-stream", "unknown-stream"),
        ("frame-bad-events", "bad-events"),
        ("too-many-links", "too-many-links"),
        ("listener-too-slow", "listener-too-slow"),
    ],
)
def test_what_the_client_asked_for_or_sent_is_refused_for_good(code: str, reason_code: str) -> None:
    error = refusal_error(Rejected(code, "why"), "10.0.0.1:7611")
    assert isinstance(error, InputError)
    assert (error.reason_code, error.message) == (reason_code, "why")
