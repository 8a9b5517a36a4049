"""Requests that schemathesis draws from the description of a REST API, valid and invalid ones."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.generation import GenerationMode

EACH = 20
"""How many requests of a call are drawn at a time."""
THERE = {"name": "Storms", "savepoint": "before"}
BASE = "http://127.0.0.1"
SETTINGS = settings(
    max_examples=EACH, phases=(Phase.generate,), deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@schemathesis.serializer("application/x-ndjson", "application/vnd.apache.parquet")
def as_bytes(context: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else json.dumps(value).encode()


def described_requests(
    description: dict[str, Any], chance: random.Random, goes_on: Callable[[], bool]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the kind and the parts of one request after the other, as long as it `goes_on`; all calls in turn."""
    schema = schemathesis.openapi.from_dict(description)
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    while goes_on():
        chance.shuffle(operations)
        for operation in operations:
            for mode in GenerationMode:
                if not goes_on():
                    return
                kind = f"{operation.method.upper()} {operation.path} ({mode.value})"
                for case in _drawn(operation.as_strategy(generation_mode=mode), chance.getrandbits(64)):
                    if (request := _request(case, chance)) is not None:
                        yield kind, request


def _drawn(strategy: Any, number: int) -> list[Any]:
    found: list[Any] = []

    @seed(number)
    @SETTINGS
    @given(case=strategy)
    def draw(case: Any) -> None:
        found.append(case)

    try:
        draw()
    except Unsatisfiable:  # a call that takes nothing cannot be asked wrongly
        return found
    return found


def _request(case: Any, chance: random.Random) -> dict[str, Any] | None:
    """Return the parts of a request; None if it cannot be written in HTTP."""
    for name, there in THERE.items():  # otherwise nearly every response would be that there is none
        if name in (case.path_parameters or {}) and chance.random() < 0.5:
            case.path_parameters[name] = there
    try:
        prepared = requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
    except (ValueError, requests.RequestException):
        return None
    address = urlsplit(prepared.url or "")
    body = prepared.body.encode() if isinstance(prepared.body, str) else prepared.body
    headers = {
        name if isinstance(name, str) else name.decode("latin-1"): value
        if isinstance(value, str)
        else value.decode("latin-1")
        for name, value in prepared.headers.items()
        if name.lower() not in ("content-length", "transfer-encoding", "connection")
    }
    return {
        "method": prepared.method,
        "path": address.path,
        "query_string": address.query,
        "headers": headers,
        "data": body,
    }
