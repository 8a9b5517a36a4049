"""Accounts of a manager: authentication by password, session or token, and what users change about themselves."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
from collections import OrderedDict
from typing import Any

from cep_common.clock import Clock
from cep_common.security.access import AccessRole
from cep_common.security.tokens import PREFIX
from cep_manager.accounts.audit_log import DAY_MS, AuditLog
from cep_manager.accounts.errors import (
    AccountInvalidError,
    TooManyAttemptsError,
    UnknownAccountError,
    WrongPasswordError,
)
from cep_manager.accounts.login_rate_limit import LoginRateLimit
from cep_manager.accounts.model import (
    LONGEST_PASSWORD,
    LONGEST_TOKEN_DAYS,
    USER_NAME,
    PersonalToken,
    Session,
    User,
    checked_password,
    checked_token_name,
    is_within,
)
from cep_manager.accounts.passwords import Passwords
from cep_manager.accounts.session_store import SessionStore, StoredSession
from cep_manager.accounts.user_store import UserStore
from cep_manager.config import AccountsConfig
from cep_manager.persistence.database import Database

logger = logging.getLogger(__name__)

SEEN_MS = 1_000
"""How long the database's answer on a session or token is cached; other processes' changes apply after it."""

MOST_SEEN = 1_000
USED_MS = 60_000
"""The minimum interval at which the last use of a session or token is stored."""

RIGHT_MS = 300_000
"""How long a correct name and password are accepted again without the slow hash, as long as the user is unchanged."""

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SECRET_BYTES = 32

WRONG = "wrong name or password, or the account is disabled"


class Accounts:
    """The accounts of a manager. Any thread may use them.

    Every method raises PlanStoreError when the database cannot be used: then logins are impossible.
    """

    def __init__(
        self,
        database: Database,
        config: AccountsConfig,
        clock: Clock,
        passwords: Passwords | None = None,
        pace: LoginRateLimit | None = None,
    ) -> None:
        self.config = config
        self.users = UserStore(database)
        self.sessions = SessionStore(database)
        self.audit = AuditLog(database, config.audit_days)
        self.passwords = passwords or Passwords()
        self.clock = clock
        self._pace = pace or LoginRateLimit()
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, tuple[int, Any]] = OrderedDict()
        self._right: OrderedDict[bytes, int] = OrderedDict()
        self._right_key = secrets.token_bytes(SECRET_BYTES)

    # ---- passwords -------------------------------------------------------------------------------------------------

    def log_in(self, name: str, password: str, address: str) -> User:
        """Return the user with this name and password.

        Raises WrongPasswordError, which does not reveal whether the user exists, and TooManyAttemptsError.
        """
        user = self._checked(name, password, address)
        self.users.change(user.name, {"login_ms": self.clock.now_ms()})
        return user

    def user_by_password(self, name: str, password: str, address: str) -> User:
        """Return the user, for programs that send name and password with every request.

        Works as `log_in`, but computes the slow hash only once every few minutes.
        """
        user = self.users.find(name.strip().lower()) if USER_NAME.fullmatch(name.strip().lower()) else None
        if user is not None and not user.disabled and self._was_right(user, password):
            return user
        user = self._checked(name, password, address)
        with self._lock:
            _keep(self._right, self._proof(user, password), self.clock.monotonic_ms())
        return user

    def still(self, user: User) -> User | None:
        """Return the current record of the user, at most `LOOK_MS` old.

        Returns None when the user's password has changed since, or the account is disabled.
        """
        found: User | None = self._look(f"user {user.name}", lambda: self.users.find(user.name))
        if found is None or found.disabled or found.password_hash != user.password_hash:
            return None
        return found

    def change_password(self, user: User, former: str, password: str, address: str) -> User:
        """Change the user's password and end all sessions of the user.

        Raises WrongPasswordError when `former` is not the present one, TooManyAttemptsError, AccountInvalidError when
        the new one is not good enough.
        """
        checked_password(password, user.name)
        checked = self._checked(user.name, former, address)
        if former == password:
            raise AccountInvalidError("the new password is the same as the current one; choose another one")
        values = {"password_hash": self.passwords.hash(password), "must_change_password": False}
        changed = self.users.change(user.name, values, end_sessions=True, password_hash=checked.password_hash)
        self.forget_seen()
        return changed

    def _checked(self, name: str, password: str, address: str) -> User:
        name = name.strip().lower()
        known = USER_NAME.fullmatch(name) is not None
        with self._lock:
            tried = name if known else ""
            wait_ms = self._pace.attempt(tried, address, self.clock.monotonic_ms())
            familiar = self._pace.is_known(tried, address)
        if wait_ms:
            raise TooManyAttemptsError(wait_ms)
        user = self.users.find(name) if known else None
        kept = user.password_hash if user else None
        try:
            right = self.passwords.is_right(password[: LONGEST_PASSWORD + 1], kept, known=familiar)
        except TooManyAttemptsError:
            with self._lock:
                self._pace.undo(tried, address)
            raise
        if user is None or not right or user.disabled:
            raise WrongPasswordError(WRONG)
        with self._lock:
            self._pace.succeeded(name, address)
        return user

    def _was_right(self, user: User, password: str) -> bool:
        with self._lock:
            at_ms = self._right.get(self._proof(user, password))
        return at_ms is not None and self.clock.monotonic_ms() - at_ms < RIGHT_MS

    def _proof(self, user: User, password: str) -> bytes:
        """Return a proof of the password that only this process can check, and only against the user's present hash."""
        text = "\0".join((user.name, user.password_hash, password))
        return hmac.digest(self._right_key, text.encode(), "sha256")

    # ---- sessions --------------------------------------------------------------------------------------------------

    def begin_session(self, user: User, address: str, agent: str, data: dict[str, Any]) -> str:
        """Log the user in and return the session's secret, which is stored nowhere.

        Raises WrongPasswordError when the user's password has been changed since, or the account disabled or removed.
        """
        proof = secrets.token_urlsafe(SECRET_BYTES)
        now_ms = self.clock.now_ms()
        session = Session("", user.name, now_ms, now_ms, address[:64], agent[:200])
        over_ms = now_ms - self.config.session_hours * HOUR_MS
        self.sessions.add(hashed(proof), session, user.password_hash, data, over_ms)
        return proof

    def session(self, proof: str) -> StoredSession | None:
        """Return the session with this proof; None if it has expired or its user is disabled."""
        sha256 = hashed(proof)
        found: StoredSession | None = self._look(sha256, lambda: self.sessions.find(sha256))
        if found is None or found.user.disabled or self._is_over(found.session):
            return None
        return found

    def sessions_of(self, name: str) -> tuple[Session, ...]:
        """Return the user's open sessions, the most recently used first."""
        return tuple(one for one in self.sessions.of(name) if not self._is_over(one))

    def _is_over(self, session: Session) -> bool:
        now_ms = self.clock.now_ms()
        idle_ms, age_ms = now_ms - session.used_ms, now_ms - session.created_ms
        return idle_ms >= self.config.idle_minutes * MINUTE_MS or age_ms >= self.config.session_hours * HOUR_MS

    def use_session(self, proof: str, stored: StoredSession) -> None:
        """Extend the session because its user is active."""
        now_ms = self.clock.now_ms()
        if now_ms - stored.session.used_ms >= USED_MS:
            self.sessions.use(hashed(proof), now_ms)
            self.forget_seen()

    def end_session(self, proof: str) -> None:
        """End the session with this proof."""
        self.sessions.end(hashed(proof))
        self.forget_seen()

    def end_other_session(self, user: User, key: str) -> None:
        """End the user's session `key`. Raises UnknownAccountError."""
        if not self.sessions.end_one(user.name, key):
            raise UnknownAccountError("that session has ended already")
        self.forget_seen()

    # ---- tokens ----------------------------------------------------------------------------------------------------

    def create_token(self, user: User, name: str, role: AccessRole, days: int) -> str:
        """Create a token that is valid for `days` days and return it; it cannot be read again later.

        Raises AccountInvalidError, AccountExistsError, and WrongPasswordError as `begin_session` does.
        """
        if not is_within(role, user.role):
            raise AccountInvalidError(f"you are {user.role.value}; a token of yours cannot be {role.value}")
        if not 1 <= days <= LONGEST_TOKEN_DAYS:
            raise AccountInvalidError(f"a token is valid for 1 to {LONGEST_TOKEN_DAYS} days")
        now_ms = self.clock.now_ms()
        made = PersonalToken(user.name, checked_token_name(name), role, now_ms, now_ms + days * DAY_MS, 0)
        token = PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        self.users.add_token(made, hashed(token), user.password_hash)
        return token

    def revoke_token(self, user: User, name: str) -> None:
        """Revoke a token of the user. Raises UnknownAccountError."""
        self.users.remove_token(user.name, name)
        self.forget_seen()

    def user_by_token(self, token: str) -> tuple[PersonalToken, User] | None:
        """Return the token and its owner.

        None when the token is unknown or has expired, when its owner is disabled, or when the owner's role no longer
        includes the token's: a sender's token is refused once its owner has become a viewer.
        """
        if not token.startswith(PREFIX):
            return None
        sha256 = hashed(token)
        found: tuple[PersonalToken, User] | None = self._look(sha256, lambda: self.users.find_token(sha256))
        if found is None or found[1].disabled or self.clock.now_ms() >= found[0].expires_ms:
            return None
        kept, user = found
        if not (is_within(kept.role, user.role) or is_within(user.role, kept.role)):
            return None
        if self.clock.now_ms() - kept.used_ms >= USED_MS:
            self.users.use_token(sha256, self.clock.now_ms())
            self.forget_seen()
        return kept, user

    # ---- what was seen ---------------------------------------------------------------------------------------------

    def forget_seen(self) -> None:
        """Drop cached users and sessions so that changes count from the next request on."""
        with self._lock:
            self._seen.clear()

    def _look(self, key: str, find: Any) -> Any:
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            seen = self._seen.get(key)
        if seen is not None and now_ms - seen[0] < SEEN_MS:
            return seen[1]
        found = find()
        with self._lock:
            _keep(self._seen, key, (now_ms, found))
        return found


def hashed(proof: str) -> str:
    """Return the hash of a secret that is stored. Secrets have 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(proof.encode()).hexdigest()


def _keep(seen: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    seen[key] = value
    seen.move_to_end(key)
    if len(seen) > MOST_SEEN:
        seen.popitem(last=False)
