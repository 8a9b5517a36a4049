"""Acknowledgements and their ledger."""

from __future__ import annotations

import pytest

from topology.acks import Ack, AckLedger


def test_an_acknowledgement_follows_the_last_holder_and_happens_once() -> None:
    calls: list[int] = []
    ack = Ack(lambda: calls.append(1))
    ack.announce(2)
    ack.settle()
    ack.settle()
    assert calls == []
    ack.settle()
    assert calls == [1]
    with pytest.raises(ValueError, match="more often"):
        ack.settle()


def test_a_ledger_acknowledges_up_to_the_first_open_frame() -> None:
    ledger = AckLedger()
    for number in (1, 2, 4):
        ledger.took(number)
    assert [ledger.settle(number) for number in (2, 1, 4)] == [None, 2, 4]
    assert len(ledger) == 0
