"""Whose orders a driver follows."""

from topology.driver.fencing import OrderFence


def test_a_manager_that_led_before_is_not_followed() -> None:
    fence = OrderFence()
    assert fence.admits(3)
    assert fence.admits(3)
    assert not fence.admits(2)
    assert fence.admits(4)


def test_the_system_that_was_heard_first_is_followed_and_no_other() -> None:
    fence = OrderFence()
    assert fence.follows(""), "a manager that does not tell"
    assert fence.follows("a")
    assert not fence.follows("b")
    assert fence.foreign
    assert fence.follows("a")
    assert not fence.foreign
