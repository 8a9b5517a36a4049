"""Whether the store of checkpoints can be used is known before a plan needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import zmq
from checkpoint_stores import KINDS, store_of
from s3_server import BUCKET, s3_server
from test_checkpoint_service import TIMING, until

from cep_common.clock import SystemClock
from topology.checkpoint.coordination.archive import Archive
from topology.checkpoint.coordination.service import CheckpointService
from topology.checkpoint.errors import StoreUnreachableError
from topology.checkpoint.storage.store import open_store


def test_a_store_that_cannot_be_used_is_told_of_from_the_start_until_it_can_be(
    zmq_context: zmq.Context[zmq.Socket[bytes]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("topology.checkpoint.coordination.storing.CHECK_MS", 20)
    in_the_way = tmp_path / "checkpoints"
    in_the_way.touch()
    archive = Archive(open_store(str(in_the_way)), retained=2)
    service = CheckpointService(zmq_context, "127.0.0.1", (14_000, 14_999), TIMING, archive, SystemClock())
    service.start()
    try:
        assert str(in_the_way) in until(service.store_problem)
        in_the_way.unlink()
        until(lambda: not service.store_problem())
    finally:
        service.close()
    told = [
        record.getMessage() for record in caplog.records if "checkpoint store cannot be used" in record.getMessage()
    ]
    assert told
    assert len(told) == len(set(told)), "the same is not logged again and again"
    assert list(in_the_way.iterdir()) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_is_looked_at_holds_what_it_held(kind: str, tmp_path: Path) -> None:
    store = store_of(kind, tmp_path)
    store.check()
    assert store._blobs.sizes("") == {}


def test_a_bucket_that_is_not_there_is_noticed() -> None:
    with s3_server() as server:
        elsewhere = open_store(server.location("checkpoints").replace(f"@{BUCKET}/", "@elsewhere/"))
        with pytest.raises(StoreUnreachableError, match="NO_SUCH_BUCKET"):
            elsewhere.check()
