"""Passwords as they are kept and made."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Literal

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import VerifyMismatchError

from cep_manager.accounts.errors import AccountInvalidError, TooManyAttemptsError
from cep_manager.accounts.model import SHORTEST_PASSWORD, checked_name, checked_password, checked_token_name
from cep_manager.accounts.passwords import OTHERS_WAIT, Passwords, random_password


@pytest.mark.thorough
def test_a_password_is_kept_as_a_slow_hash_of_its_own() -> None:
    passwords = Passwords()
    first, second = passwords.hash("correct horse"), passwords.hash("correct horse")
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert first != second
    assert passwords.is_right("correct horse", first)
    assert not passwords.is_right("correct horsf", first)
    assert not passwords.is_right("correct horse", None)
    assert not passwords.is_right("correct horse", "not a hash")


def test_whoever_does_not_exist_is_refused_after_just_as_much_work() -> None:
    checked: list[str] = []

    class Watched(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - its name there
            checked.append(str(hash))
            return super().verify(hash, password)

    passwords = Passwords(Watched(time_cost=2, memory_cost=64, parallelism=2))
    assert not passwords.is_right("correct horse", None)
    with pytest.raises(VerifyMismatchError):
        Watched().verify(checked[0], "correct horse")
    assert extract_parameters(checked[0]) == extract_parameters(passwords.hash("correct horse"))


def test_random_passwords_are_good_and_never_the_same() -> None:
    made = {random_password() for _ in range(100)}
    assert len(made) == 100
    assert all(checked_password(one, "admin") == one for one in made)


@pytest.mark.parametrize("written", ["short", "a" * 20, "ab" * 10, "x" * 257, "administrator"])
def test_a_password_that_would_be_guessed_is_refused(written: str) -> None:
    with pytest.raises(AccountInvalidError, match="password"):
        checked_password(written, "administrator")
    assert len("administrator") >= SHORTEST_PASSWORD


@pytest.mark.parametrize("name", ["", "Ada", "a b", "-a", "a" * 65, "a:b", "<b>", "ä", "a\n"])
def test_a_name_that_no_user_can_have_is_refused(name: str) -> None:
    with pytest.raises(AccountInvalidError, match="1 to 64 characters"):
        checked_name(name)


def test_names_of_users_and_tokens() -> None:
    assert checked_name("ada.lovelace@example.org") == "ada.lovelace@example.org"
    assert checked_token_name(" CI für <alle> ") == "CI für <alle>"
    for name in ("", " ", "x" * 65, "a\x00b"):
        with pytest.raises(AccountInvalidError, match="a token's name"):
            checked_token_name(name)


def test_few_wait_for_a_hash_and_the_others_are_told_to_come_again() -> None:
    passwords = Passwords(PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    kept = passwords.hash("correct horse")
    with ThreadPoolExecutor(20) as pool:
        with passwords._one_at_a_time:
            waiting = [pool.submit(passwords.is_right, "a guess", kept, known=False) for _ in range(15)]
            refused = [next(as_completed(waiting)) for _ in range(1)]
            assert isinstance(refused[0].exception(), TooManyAttemptsError)
            owner = pool.submit(passwords.is_right, "correct horse", kept, known=True)
        assert owner.result(10)
    assert sum(one.exception() is None for one in waiting) == OTHERS_WAIT + 1
