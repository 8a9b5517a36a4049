"""A page in a browser sends nothing to a worker in its visitor's name, also where nobody needs a token."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cep_common.security.web import open_gate
from cep_worker.http.app import create_app

CALLS = ["/events/S", "/anything", "/errors/discard", "/errors/replay"]


def client() -> Any:
    gateway: Any = SimpleNamespace(not_live=str, not_ready=str)  # what the routes ask for when they are made
    return create_app(gateway, 1_000, 100, open_gate()).test_client()


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(
    "header",
    [
        {"Origin": "http://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:8006"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://a.example", "Authorization": "Basic YTpi"},
    ],
)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_no_page_sends_events(path: str, header: dict[str, str], kind: str) -> None:
    answer = client().post(path, data=b"[]", headers={**header, "Content-Type": kind})
    assert (answer.status_code, answer.json["code"]) == (403, "cross-site")
