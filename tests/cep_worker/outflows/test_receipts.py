"""Receipts of frames: delivered when all consumers have settled, acknowledged in order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cep_worker.outflows.receipts import DeliveryReceipt
from topology.acks import AckLedger


def test_a_frame_is_delivered_when_its_last_consumer_settles_and_only_once() -> None:
    delivered: list[str] = []
    receipt = DeliveryReceipt(2, lambda: delivered.append("frame"))
    receipt.settle()
    assert delivered == []
    receipt.settle()
    assert delivered == ["frame"]
    with pytest.raises(ValueError, match="more often"):
        receipt.settle()


@settings(deadline=None)
@given(st.integers(1, 12).flatmap(lambda count: st.permutations(range(1, count + 1))))
def test_frames_settled_in_any_order_are_acknowledged_up_to_the_first_that_is_not(order: list[int]) -> None:
    frames = AckLedger()
    for number in sorted(order):
        frames.took(number)
    settled: set[int] = set()
    acknowledged = 0
    for number in order:
        settled.add(number)
        acknowledged = frames.settle(number) or acknowledged
        first_open = min(set(order) - settled, default=len(order) + 1)
        assert acknowledged == first_open - 1
        assert len(frames) == len(order) - acknowledged
