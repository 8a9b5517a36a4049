"""What the tests of accounts share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from account_world import AccountWorld, world_in


@pytest.fixture
def accounts_at_work(tmp_path: Path) -> Iterator[AccountWorld]:
    """A manager where people log in, with a user of every role."""
    with world_in(tmp_path) as world:
        world.add_users()
        yield world
