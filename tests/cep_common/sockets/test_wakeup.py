"""The bell: a loop that waits for sockets is woken by another thread."""

from __future__ import annotations

import zmq

from cep_common.sockets.wakeup import Bell


def test_a_bell_that_was_rung_wakes_the_loop_until_it_is_silenced() -> None:
    bell, poller = Bell(), zmq.Poller()
    poller.register(bell.handle, zmq.POLLIN)
    assert not poller.poll(0)
    for _ in range(70_000):  # more than the pipe holds
        bell.ring()
    assert poller.poll(0)
    bell.silence()
    assert not poller.poll(0)
    bell.ring()
    assert poller.poll(0)
    bell.close()


def test_a_bell_that_was_closed_touches_nothing_any_more() -> None:
    bell = Bell()
    bell.close()
    other = Bell()  # the numbers of the closed pipe are its own now
    bell.ring()
    bell.close()
    other.ring()
    other.silence()
    other.close()
