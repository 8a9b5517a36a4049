"""Object stores as stores of checkpoints: how they are named, what they are asked, what is told of their failures."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from checkpoint_stores import KEY, lineage_of
from s3_server import S3Server, s3_server

from topology.checkpoint.errors import StoreUnreachableError
from topology.checkpoint.model import Lineage
from topology.checkpoint.storage import object_stores
from topology.checkpoint.storage.object_stores import open_objects
from topology.checkpoint.storage.store import open_store, shown_location

PART = b"x" * 1_000_000


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


LOCATIONS = {
    "var/cep/checkpoints": "var/cep/checkpoints",
    "file:///srv/check points": "file:///srv/check points",
    "s3://bucket/folder": "s3://bucket/folder",
    "s3://bucket/who@where/folder?region=x": "s3://bucket/who@where/folder",
    "s3://KEY:secret%2Fsecret@bucket/folder?scheme=http": "s3://bucket/folder",
    "s3://KEY:sec/ret+secret@bucket/folder": "s3://bucket/folder",
    "s3://KEY:sec?ret@bucket/folder": "s3://bucket/folder",
    "s3://KEY:sec[ret@bucket/folder": "s3://bucket/folder",
    "gs://anonymous@bucket/folder?endpoint_override=secret": "gs://bucket/folder",
    "postgresql+psycopg://cep:sec/ret@host:5432/db?password=secret": "postgresql+psycopg://host:5432/db",
    "sqlite:////srv/cep@home/checkpoints.db": "sqlite:////srv/cep@home/checkpoints.db",
}


@pytest.mark.parametrize(("location", "shown"), LOCATIONS.items())
def test_of_a_location_its_place_is_shown_and_no_secret(location: str, shown: str) -> None:
    assert shown_location(location) == shown


@pytest.mark.parametrize(
    ("location", "told"),
    [
        (
            "s3://KEY:sec/ret@bucket/folder",
            r"s3://bucket/folder cannot be used: a bucket must follow .* \(write / in a secret as %2F\)",
        ),
        ("s3://KEY:sec?ret@bucket/folder", "a bucket must follow"),
        ("s3://KEY:sec[ret@bucket/folder", "s3://bucket/folder cannot be used"),
        ("s3:///folder", "a bucket must follow"),
        (
            "s3://KEY:sec-ret@bucket/f?endpoint=127.0.0.1",
            "no option endpoint; options are region, scheme, endpoint_over",
        ),
        ("gs://KEY:sec ret@bucket/folder", "gs://bucket/folder cannot be used"),
        ("hdfs://KEY:sec ret@host:port/folder", "hdfs://host:port/folder cannot be used"),
    ],
)
def test_a_location_that_is_not_right_is_told_of_without_its_secret(location: str, told: str) -> None:
    with pytest.raises(StoreUnreachableError, match=told) as refused:
        open_store(location)
    assert "checkpoint.location" in str(refused.value)
    assert "ret@" not in str(refused.value)
    assert "sec" not in str(refused.value).replace("in a secret", "")
    assert refused.value.__cause__ is None


def test_what_is_small_is_one_request_and_no_folders_are_made(server: S3Server) -> None:
    store = open_store(server.location("check%20points"))
    store.write_lineage(KEY, Lineage())
    names = ["-1234/Delays/lineage", "-1234/Delays/copies/lineage"]
    assert server.asked == [f"PUT cep/check points/{name}" for name in names]
    assert list(server.objects) == [f"check points/{name}" for name in names]


def test_an_upload_that_breaks_off_leaves_what_was_there(server: S3Server) -> None:
    blobs = open_objects(server.location("f"), "s3://cep/f")
    blobs.put("a/large", [PART] * 25)
    assert len(server.asked) > 3, "it goes in parts"
    server.refused_parts = {2}
    with pytest.raises(
        StoreUnreachableError, match=r"s3://cep/f/a/large at http://127\.0\.0\.1:\d+ cannot be used: .*no more"
    ):
        blobs.put("a/large", [PART[1:]] * 25)
    with pytest.raises(StoreUnreachableError, match="no more"):
        blobs.put("a/new", [PART] * 25)
    assert {name: len(data) for name, data in server.objects.items()} == {"f/a/large": 25_000_000}


def test_the_environment_names_the_server_and_who_asks(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEYOFTHEENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    open_store("s3://cep/f").write_lineage(KEY, lineage_of((1, 0, 0)))
    assert list(server.objects) == ["f/-1234/Delays/lineage", "f/-1234/Delays/copies/lineage"]
    assert server.who == {"KEYOFTHEENVIRONMENT"}


def test_a_server_that_takes_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_stores, "SILENT_S", 0.5)
    monkeypatch.setattr(object_stores, "ATTEMPTS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = open_store(f"s3://KEY:secret@cep/f?scheme=http&endpoint_override=127.0.0.1:{port}")
        began = time.monotonic()
        with pytest.raises(
            StoreUnreachableError, match=rf"s3://cep/f/.*/lineage at http://127\.0\.0\.1:{port} cannot be"
        ):
            store.lineage(KEY)
    assert time.monotonic() - began < 20
