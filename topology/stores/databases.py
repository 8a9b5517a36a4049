"""Databases through SQLAlchemy, as sinks and stores use them: how one is opened, and what its errors mean."""

from __future__ import annotations

import sqlite3
from typing import Any

import sqlalchemy
from sqlalchemy import BigInteger, Connection, Engine, Integer, exc
from sqlalchemy.types import Boolean, Double, Float, LargeBinary, Text, TypeEngine

from cep_common.configuration.password_files import PasswordFileError, read_password
from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.databases import host_of, refuse_database
from cep_common.reach.guard import Guard

COLUMN_TYPES: dict[str, type[TypeEngine[Any]]] = {
    "string": Text,
    "int": Integer,
    "long": BigInteger,
    "float": Float,
    "double": Double,
    "bool": Boolean,
    "object": LargeBinary,
}
"""The column for an attribute of each type."""

CONNECT_S = 10
"""How long a server may take to answer before it counts as unreachable."""
_TAKES_CONNECT_TIMEOUT = ("psycopg", "psycopg2", "pymysql", "mysqldb")

RETRY_WAITS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""How long to wait before the next try; the last one repeats."""


class DatabaseUrlError(ValueError):
    """The URL, its driver or the password's file cannot be used; `option` is which of them."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


def open_database(url: str, password_file: str = "", username: str = "", password: str = "") -> Engine:
    """Return an engine for the database at `url` (SQLAlchemy); nothing is connected yet.

    The other arguments take precedence over the URL.

    Raises:
        DatabaseUrlError: When the URL is invalid.
    """
    if password_file:
        try:
            password = read_password(password_file)
        except PasswordFileError as error:
            raise DatabaseUrlError("password.file", str(error)) from error
    try:
        parsed = sqlalchemy.make_url(url)
        if username:
            parsed = parsed.set(username=username)
        if password:
            parsed = parsed.set(password=password)
        waits = parsed.get_driver_name() not in _TAKES_CONNECT_TIMEOUT or "connect_timeout" in parsed.query
        options = {} if waits else {"connect_timeout": CONNECT_S}
        engine = sqlalchemy.create_engine(parsed, pool_pre_ping=True, connect_args=options)
    except (exc.ArgumentError, exc.NoSuchModuleError) as error:
        raise DatabaseUrlError("url", said_by(error)) from error
    except ModuleNotFoundError as error:
        raise DatabaseUrlError("url", f"the driver {error.name} is not installed") from error
    except (ValueError, TypeError):  # what it says may be a part of a password with a slash, taken for the port
        raise DatabaseUrlError("url", "its port or one of its parameters is invalid") from None
    if engine.dialect.name == "sqlite":
        sqlalchemy.event.listen(engine, "connect", _leave_transactions_alone)
        sqlalchemy.event.listen(engine, "begin", _begin)
    return engine


def guard_database(engine: Engine, guard: Guard) -> None:
    """Have every connection to the database ask `guard` for the file or addresses that its URL means at that moment."""

    def check(*_: Any) -> None:
        reason = refuse_database(engine.url, guard)
        try:
            if not reason and (server := host_of(engine.url)) is not None:
                allowed_addresses(guard, *server)
        except ReachError as error:
            reason = error.message
        except OSError as error:
            reason = f"unknown database host: {error.strerror}"
        if reason:
            raise exc.OperationalError("connect", None, ConnectionError(reason))

    def forbid_attaching(connection: Any, _record: Any) -> None:
        connection.set_authorizer(_no_other_files)

    sqlalchemy.event.listen(engine, "do_connect", check)
    if engine.dialect.name == "sqlite":
        sqlalchemy.event.listen(engine, "connect", forbid_attaching)


def _no_other_files(action: int, *_: Any) -> int:
    """No statement opens another file."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _leave_transactions_alone(connection: Any, _record: Any) -> None:
    """Python's driver of SQLite begins transactions late and ends them early, unless told not to."""
    connection.isolation_level = None


def _begin(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def may_pass(error: exc.SQLAlchemyError) -> bool:
    """Return whether the error may pass: the database is unreachable, or its state can be repaired by others."""
    if isinstance(error, exc.DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(error, exc.OperationalError | exc.InterfaceError | exc.TimeoutError | exc.ProgrammingError)


def said_by(error: exc.SQLAlchemyError) -> str:
    """Return the database's message, in one line, without the statement and its values.

    PostgreSQL's details are omitted, since they hold values.
    """
    said = error.orig if isinstance(error, exc.DBAPIError) and error.orig is not None else error
    return " ".join(str(said).partition("\nDETAIL:")[0].split())
