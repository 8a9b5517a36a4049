"""When acknowledgements wait for the passive node, and what the database is told before they do not."""

import pytest

from cep_worker.mirror.protection import Protection, Record, Release, State


def protected() -> Protection:
    one = Protection(0)
    (first,) = one.begin(0)
    assert first == Record(1, in_sync=False)
    assert one.waits
    assert one.recorded(1, 10) == [Release()]
    one.linked(20)
    assert not one.waits
    one.caught_up(30)
    assert one.applied(30, 40) == []  # that batch may have begun before acknowledgements waited
    assert one.applied(31, 40) == [Record(2, in_sync=True)]
    assert one.recorded(2, 50) == []
    assert one.state is State.PROTECTED
    return one


def test_a_passive_node_that_has_caught_up_protects() -> None:
    assert protected().reason == ""


def test_nothing_is_released_before_the_database_knows_that_the_passive_node_is_behind() -> None:
    one = protected()
    assert one.lost("gone", 60) == [Record(3, in_sync=False)]
    assert one.state is State.LEAVING
    assert one.waits
    assert one.recorded(2, 70) == []  # an earlier request
    assert one.waits
    assert one.recorded(3, 80) == [Release()]
    assert one.state is State.ALONE
    assert one.reason == "gone"


@pytest.mark.parametrize("state", [State.JOINING, State.CONFIRMING])
def test_a_passive_node_that_is_lost_while_it_joins_is_recorded_as_behind(state: State) -> None:
    one = Protection(0)
    one.begin(0)
    one.recorded(1, 10)
    one.linked(20)
    one.caught_up(30)
    if state is State.CONFIRMING:
        one.applied(31, 40)
    assert one.state is state
    (record,) = one.lost("gone", 50)
    assert isinstance(record, Record)
    assert not record.in_sync


def test_one_that_is_lost_while_it_catches_up_holds_nothing_up() -> None:
    one = Protection(0)
    one.begin(0)
    one.recorded(1, 10)
    one.linked(20)
    assert one.lost("gone", 30) == []
    assert one.state is State.ALONE
