"""Users and their tokens in the managers' database."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from cep_common.security.access import AccessRole
from cep_manager.accounts.errors import AccountExistsError, LastAdminError, UnknownAccountError, WrongPasswordError
from cep_manager.accounts.model import PersonalToken, User
from cep_manager.persistence.account_schema import SESSIONS, TOKENS, USERS
from cep_manager.persistence.database import Database


class UserStore:
    """The users of the system. Any thread may use it.

    All methods raise PlanStoreError when the database cannot be used; nothing has changed then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def users(self) -> tuple[User, ...]:
        """Return all users by name."""
        with self._database.reading() as connection:
            return tuple(_user(row) for row in connection.execute(sqlalchemy.select(USERS).order_by(USERS.c.name)))

    def find(self, name: str) -> User | None:
        """Return the user of that name."""
        with self._database.reading() as connection:
            row = connection.execute(sqlalchemy.select(USERS).where(USERS.c.name == name)).first()
            return _user(row) if row is not None else None

    def add(self, user: User) -> None:
        """Add a user. Raises AccountExistsError when the name is taken."""
        with self._database.transaction() as connection:
            _insert(connection, user)

    def add_first(self, user: User) -> bool:
        """Add the user if there is none yet; return False, with nothing changed, if there is."""
        try:
            with self._database.transaction() as connection:
                if connection.scalar(sqlalchemy.select(sqlalchemy.func.count()).select_from(USERS)):
                    return False
                _insert(connection, user)
        except AccountExistsError:  # another manager started at the same moment
            return False
        return True

    def change(
        self, name: str, values: dict[str, Any], end_sessions: bool = False, password_hash: str | None = None
    ) -> User:
        """Apply `values` to the user, end all sessions if `end_sessions`, and return the changed user.

        Raises UnknownAccountError, LastAdminError; with `password_hash`, the hash that was checked for this change,
        WrongPasswordError when it is no longer the user's.
        """
        with self._database.transaction() as connection:
            if password_hash is not None:
                require_unchanged(connection, name, password_hash)
            changed = USERS.update().where(USERS.c.name == name).values({"name": name, **values})
            if not connection.execute(changed).rowcount:
                raise _unknown_user(name)
            if values.keys() & {"role", "tenant", "disabled"}:
                _require_admin(connection)
            if end_sessions:
                connection.execute(SESSIONS.delete().where(SESSIONS.c.user == name))
            return _user(connection.execute(sqlalchemy.select(USERS).where(USERS.c.name == name)).one())

    def remove(self, name: str) -> None:
        """Remove the user with all sessions and tokens. Raises UnknownAccountError, LastAdminError."""
        with self._database.transaction() as connection:
            if not connection.execute(USERS.delete().where(USERS.c.name == name)).rowcount:
                raise _unknown_user(name)
            _require_admin(connection)
            connection.execute(SESSIONS.delete().where(SESSIONS.c.user == name))
            connection.execute(TOKENS.delete().where(TOKENS.c.user == name))

    def tokens(self, user: str) -> tuple[PersonalToken, ...]:
        """Return the user's tokens, oldest first."""
        with self._database.reading() as connection:
            rows = connection.execute(
                sqlalchemy.select(TOKENS).where(TOKENS.c.user == user).order_by(TOKENS.c.created_ms, TOKENS.c.name)
            )
            return tuple(_token(row) for row in rows)

    def find_token(self, sha256: str) -> tuple[PersonalToken, User] | None:
        """Return the token with this hash, expired or not, and its owner.

        None if the token or its owner does not exist.
        """
        with self._database.reading() as connection:
            row = connection.execute(sqlalchemy.select(TOKENS).where(TOKENS.c.sha256 == sha256)).first()
            if row is None:
                return None
            owner = connection.execute(sqlalchemy.select(USERS).where(USERS.c.name == row.user)).first()
            return (_token(row), _user(owner)) if owner is not None else None

    def add_token(self, token: PersonalToken, sha256: str, password_hash: str) -> None:
        """Add a token to the user.

        Raises AccountExistsError when the name is taken, WrongPasswordError when `password_hash`, the hash by which the
        user was let in, is no longer the user's.
        """
        with self._database.transaction() as connection:
            require_unchanged(connection, token.user, password_hash)
            try:
                connection.execute(TOKENS.insert().values({**_row(token), "sha256": sha256}))
            except IntegrityError as error:
                message = f"you have a token named {token.name}; revoke it, or choose another name"
                raise AccountExistsError(message) from error

    def use_token(self, sha256: str, now_ms: int) -> None:
        """Record when the token was last used."""
        with self._database.transaction(survives_power_loss=False) as connection:
            connection.execute(TOKENS.update().where(TOKENS.c.sha256 == sha256).values(used_ms=now_ms))

    def remove_token(self, user: str, name: str) -> None:
        """Remove a token of the user. Raises UnknownAccountError."""
        with self._database.transaction() as connection:
            named = TOKENS.c.user == user, TOKENS.c.name == name
            if not connection.execute(TOKENS.delete().where(*named)).rowcount:
                raise UnknownAccountError(f"{user} has no token named {name}")


def require_unchanged(connection: Connection, name: str, password_hash: str) -> None:
    """Check that the user has that password and is enabled, and lock the user until the transaction ends.

    Whatever ends the user's sessions later also ends what this transaction adds. Raises WrongPasswordError.
    """
    known = sqlalchemy.select(USERS.c.password_hash).where(USERS.c.name == name, USERS.c.disabled.is_(False))
    if connection.scalar(known.with_for_update()) != password_hash:
        raise WrongPasswordError("the password was just changed, or the account disabled; log in again")


def _insert(connection: Connection, user: User) -> None:
    try:
        connection.execute(USERS.insert().values(_row(user)))
    except IntegrityError as error:
        raise AccountExistsError(f"a user named {user.name} already exists") from error


def _require_admin(connection: Connection) -> None:
    """Raise LastAdminError, which rolls the transaction back, when no active admin is left."""
    admins = USERS.c.role == AccessRole.ADMIN.value, USERS.c.tenant.is_(None), USERS.c.disabled.is_(False)
    # Locked, so that of two transactions that take two admins away at the same time the second one sees the first.
    if connection.execute(sqlalchemy.select(USERS.c.name).where(*admins).with_for_update()).first() is None:
        raise LastAdminError("that is the last admin; make another user an admin first")


def _unknown_user(name: str) -> UnknownAccountError:
    return UnknownAccountError(f"there is no user named {name}")


def _row(record: msgspec.Struct) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record), "role": record.role.value}  # type: ignore[attr-defined]


def _user(row: sqlalchemy.Row[Any]) -> User:
    return User(**{**row._mapping, "role": AccessRole(row.role)})


def _token(row: sqlalchemy.Row[Any]) -> PersonalToken:
    values = {name: row._mapping[name] for name in PersonalToken.__struct_fields__}
    return PersonalToken(**{**values, "role": AccessRole(row.role)})
