"""How often passwords may be tried."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cep_manager.accounts.login_rate_limit import MOST_BUCKETS, LoginAllowance, LoginRateLimit

OF_NAME, OF_ADDRESS = LoginAllowance(3, 1_000), LoginAllowance(5, 100)


def pace() -> LoginRateLimit:
    return LoginRateLimit(OF_NAME, OF_ADDRESS)


def test_attempts_run_out_and_come_back_one_by_one() -> None:
    one = pace()
    assert [one.attempt("ada", f"10.0.0.{n}", 0) for n in range(4)] == [0, 0, 0, 1_000]
    assert one.attempt("ada", "10.0.0.9", 400) == 600
    assert one.attempt("ada", "10.0.0.9", 1_000) == 0
    assert one.attempt("ada", "10.0.0.9", 1_000) == 1_000


def test_an_address_runs_out_whatever_names_it_tries() -> None:
    one = pace()
    assert [one.attempt(f"user{n}", "10.0.0.1", 0) for n in range(6)] == [0] * 5 + [100]
    assert one.attempt("user0", "10.0.0.2", 0) == 0


def test_a_refused_attempt_costs_nothing() -> None:
    one = pace()
    for n in range(3):
        one.attempt("ada", f"10.0.0.{n}", 0)
    for _ in range(50):
        assert one.attempt("ada", "10.0.1.1", 0) == 1_000
    assert one.attempt("eve", "10.0.1.1", 0) == 0


def test_who_knows_the_password_may_log_in_as_often_as_they_like() -> None:
    one = pace()
    for _ in range(100):
        assert one.attempt("ada", "10.0.0.1", 0) == 0
        one.succeeded("ada", "10.0.0.1")


def test_what_is_kept_is_bounded() -> None:
    one = pace()
    for n in range(MOST_BUCKETS + 10):
        one.attempt(f"user{n}", f"address{n}", n)
    assert len(one._names) == len(one._addresses) == MOST_BUCKETS


@settings(deadline=None)
@given(st.lists(st.integers(min_value=0, max_value=700), max_size=60))
def test_no_rhythm_gets_more_attempts_than_the_allowance(pauses: list[int]) -> None:
    one, now_ms, taken = pace(), 0, 0
    for pause in pauses:
        now_ms += pause
        taken += one.attempt("ada", f"10.0.0.{now_ms}", now_ms) == 0
    assert taken <= OF_NAME.attempts + now_ms // OF_NAME.refill_ms


def test_who_guesses_elsewhere_does_not_lock_the_owner_out() -> None:
    one = LoginRateLimit()
    while one.attempt("ada", "10.0.0.66", 0) == 0:
        pass
    assert one.attempt("ada", "10.0.0.1", 0) == 0


def test_nor_do_many_where_the_owner_has_logged_in_before() -> None:
    one = LoginRateLimit()
    assert one.attempt("ada", "10.0.0.1", 0) == 0
    one.succeeded("ada", "10.0.0.1")
    for n in range(1_000):
        one.attempt("ada", f"10.1.{n // 256}.{n % 256}", 0)
    assert one.attempt("ada", "10.0.0.2", 0) > 0
    assert one.attempt("ada", "10.0.0.1", 0) == 0


def test_what_was_not_looked_at_costs_nothing() -> None:
    one = pace()
    for _ in range(50):
        assert one.attempt("ada", "10.0.0.1", 0) == 0
        one.undo("ada", "10.0.0.1")
    assert not one.is_known("ada", "10.0.0.1")
