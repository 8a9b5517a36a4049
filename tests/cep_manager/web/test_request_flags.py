"""Flags among the parameters of requests: `?discard`, `?discard=true`."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient
from manager_world import KEY, FakeView, World

from cep_manager.web.app import create_app


@pytest.fixture
def view() -> FakeView:
    world = World()
    world.active()
    return FakeView(world)


@pytest.fixture
def client(view: FakeView) -> FlaskClient:
    return create_app(view, 1_000).test_client()


@pytest.mark.parametrize(
    ("said", "meant"), [("replace", True), ("replace=TRUE", True), ("replace=0", False), ("", False)]
)
def test_a_flag_that_is_named_alone_is_true(client: FlaskClient, view: FakeView, said: str, meant: bool) -> None:
    assert client.post(f"/api/v1/plans?{said}", data="text").status_code < 300
    assert [replace for *_, replace in view.deployed] == [meant]


def test_what_waits_is_dropped_by_a_flag_alone(client: FlaskClient, view: FakeView) -> None:
    assert client.delete("/api/v1/plans/Storms?discard").status_code < 300
    assert view.done == [(KEY, "discard")]


def test_what_is_no_flag_is_refused_with_what_it_may_be(client: FlaskClient) -> None:
    answer = client.delete("/api/v1/plans/Storms?discard=perhaps")
    assert (answer.status_code, answer.get_json()["message"]) == (400, "discard must be true or false, not 'perhaps'")
