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


@pytest.mark.parametrize("place", range(0, 60, 7))
def test_whatever_byte_is_damaged_it_is_read_or_passed_over(tmp_path: Path, place: int) -> None:
    write_progress(tmp_path, DeliveryProgress("0123456789abcdef", rows=39, dropped=1, dropped_rows=39))
    data = bytearray((tmp_path / FILE).read_bytes())
    for bit in range(8):
        data[place] ^= 1 << bit  # no UTF-8 any more, half of the time
        (tmp_path / FILE).write_bytes(data)
        assert isinstance(read_progress(tmp_path), DeliveryProgress | None)
