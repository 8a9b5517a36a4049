"""The wakeup: a loop that waits for sockets is woken by another thread."""

from __future__ import annotations

import zmq

from cep_common.sockets.wakeup import Wakeup


def test_a_bell_that_was_rung_wakes_the_loop_until_it_is_silenced() -> None:
    wakeup, poller = Wakeup(), zmq.Poller()
    poller.register(wakeup.handle, zmq.POLLIN)
    assert not poller.poll(0)
    for _ in range(70_000):  # more than the pipe holds
        wakeup.ring()
    assert poller.poll(0)
    wakeup.silence()
    assert not poller.poll(0)
    wakeup.ring()
    assert poller.poll(0)
    wakeup.close()


def test_a_bell_that_was_closed_touches_nothing_any_more() -> None:
    wakeup = Wakeup()
    wakeup.close()
    other = Wakeup()  # the numbers of the closed pipe are its own now
    wakeup.ring()
    wakeup.close()
    other.ring()
    other.silence()
    other.close()
