"""Who writes next: the one that has waited longest, whatever others do."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from databases import open_database

from cep_manager.errors import PlanStoreError
from cep_manager.persistence.writer_queue import WriterQueue

DEADLINE_S = 20.0


class Writer(threading.Thread):
    """Takes a turn, notes that it has it, and keeps it until it is released."""

    def __init__(self, queue: WriterQueue, turns: list[str], name: str) -> None:
        super().__init__(daemon=True, name=name)
        self.queue, self.turns = queue, turns
        self.began, self.released = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self.queue.turn():
            self.turns.append(self.name)
            self.began.set()
            assert self.released.wait(DEADLINE_S)


def until(found: Callable[[], bool]) -> None:
    for _ in range(int(DEADLINE_S * 1_000)):
        if found():
            return
        threading.Event().wait(0.001)
    raise AssertionError("did not come about in time")


def test_turns_are_given_in_the_order_in_which_they_were_asked_for() -> None:
    queue, turns = WriterQueue(DEADLINE_S), list[str]()
    writers = []
    for place, name in enumerate(("first", "second", "first again", "third"), 1):
        writers.append(Writer(queue, turns, name))
        until(lambda place=place: len(queue._queue) == place)  # type: ignore[misc]
    assert writers[0].began.wait(DEADLINE_S)
    assert turns == ["first"]
    for writer in writers:
        writer.released.set()
    for writer in writers:
        writer.join(DEADLINE_S)
    assert turns == ["first", "second", "first again", "third"]


def test_one_that_waits_too_long_gives_up_its_place_and_the_next_one_gets_it() -> None:
    queue, turns = WriterQueue(0.01), list[str]()
    holder = Writer(queue, turns, "holder")
    assert holder.began.wait(DEADLINE_S)
    with pytest.raises(TimeoutError), queue.turn():
        turns.append("impatient")
    holder.released.set()
    holder.join(DEADLINE_S)
    with queue.turn():
        turns.append("next")
    assert turns == ["holder", "next"]


def test_a_block_that_fails_ends_its_turn() -> None:
    queue = WriterQueue(DEADLINE_S)
    with pytest.raises(KeyError), queue.turn():
        raise KeyError
    with queue.turn():
        pass


def test_a_transaction_that_waits_for_another_one_of_this_process_says_so(tmp_path: object) -> None:
    database = open_database(f"sqlite:///{tmp_path}/manager.db", timeout_ms=10)
    with database.transaction():
        found: list[str] = []

        def write() -> None:
            try:
                with database.transaction():
                    found.append("written")
            except PlanStoreError as error:
                found.append(error.message)

        other = threading.Thread(target=write)
        other.start()
        other.join(DEADLINE_S)
    assert "other changes of this manager" in found[0]
    with database.reading(), database.transaction():
        pass
    database.close()
