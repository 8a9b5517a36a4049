"""A damaged file beside the prepared results ends no plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep_worker.outflows.transactional_log.progress import (
    FILE,
    DeliveryProgress,
    read_progress,
    write_progress,
)
from cep_worker.storage.checked_json import copy_of

WRITTEN = DeliveryProgress("0123456789abcdef", rows=39, dropped=1, dropped_rows=39)


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_whatever_byte_is_damaged_it_is_passed_over(tmp_path: Path, place: int) -> None:
    write_progress(tmp_path, WRITTEN)
    data = bytearray((tmp_path / FILE).read_bytes())
    for bit in range(8):
        data[place] ^= 1 << bit  # no UTF-8 any more, half of the time
        (tmp_path / FILE).write_bytes(data)
        assert read_progress(tmp_path) == WRITTEN, "a number that became another one is not believed: its copy is"
        for damaged in (tmp_path / FILE, copy_of(tmp_path / FILE)):
            damaged.write_bytes(data)
        assert read_progress(tmp_path) is None
        write_progress(tmp_path, WRITTEN)
        data[place] ^= 1 << bit


def test_what_an_earlier_version_wrote_has_no_checksum(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'{"log": "a", "rows": 39}')
    assert read_progress(tmp_path) == DeliveryProgress("a", rows=39)
