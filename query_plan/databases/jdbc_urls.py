"""Convert JDBC URLs of databases to SQLAlchemy's form.

    jdbc:postgresql://db:5432/stocks?user=cep     postgresql+psycopg://cep@db:5432/stocks
    jdbc:sqlserver://db:1433;databaseName=stocks  mssql+pymssql://db:1433/stocks

Parameters are those of Java's drivers, which are not used here: only those for user, password and encryption are kept.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, unquote, urlencode

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "sqlserver": "mssql+pymssql",
    "oracle": "oracle+oracledb",
    "sqlite": "sqlite",
}
"""SQLAlchemy's name of the database after `jdbc:`, with the Python driver."""
JAVA_ONLY = ("h2", "derby", "hsqldb")
"""Databases that run inside a Java process."""
_KEPT = {"postgresql": ("sslmode",)}
"""Parameters with the same meaning in both drivers."""

_SERVER = re.compile(r"//(?P<place>[^/?;]+)(?:/(?P<database>[^?;]*))?(?:\?(?P<query>.*))?", re.DOTALL)
_SQLSERVER = re.compile(r"//(?P<place>[^/?;]+)(?P<parameters>(?:;[^;]*)*)", re.DOTALL)
_ORACLE = re.compile(r"thin:@(?://)?(?P<place>[^/:]+(?::\d+)?)(?:(?P<parted>[/:])(?P<database>.+))?", re.DOTALL)


class DatabaseAddress(NamedTuple):
    """SQLAlchemy's URL without a password, and the user and password that it contained."""

    url: str
    username: str = ""
    password: str = ""


class JdbcUrlError(ValueError):
    """A JDBC URL that Python cannot use; `java_only` when the database needs a Java driver."""

    def __init__(self, message: str, *, java_only: bool = False) -> None:
        """Create the error.

        Args:
            message: What is wrong with the URL.
            java_only: Whether the URL is valid but needs a Java driver.
        """
        super().__init__(message)
        self.java_only = java_only


def from_jdbc(text: str) -> DatabaseAddress:
    """Return the database at the JDBC URL `text`. Raise JdbcUrlError for an invalid URL."""
    scheme, kind, rest = (*text.strip().split(":", 2), "", "")[:3]
    kind = kind.casefold()
    if scheme.casefold() != "jdbc" or not rest:
        raise JdbcUrlError("a JDBC URL reads jdbc:<database>:…")
    if kind in JAVA_ONLY:
        raise JdbcUrlError(f"a {kind} database runs inside a Java process, which does not exist here", java_only=True)
    if kind not in DRIVERS:
        raise JdbcUrlError(f"no driver for a {kind} database is known; known are {', '.join(DRIVERS)}")
    match kind:
        case "sqlite":
            return DatabaseAddress(f"sqlite:///{quote(rest)}")
        case "sqlserver":
            return _sql_server(rest)
        case "oracle":
            found = _ORACLE.fullmatch(rest)
            if found is None:
                raise JdbcUrlError("an Oracle URL reads jdbc:oracle:thin:@host:port/service")
            database = found["database"] or ""
            if database and found["parted"] == "/":
                database = "?" + urlencode({"service_name": database})
            return DatabaseAddress(f"{DRIVERS[kind]}://{found['place']}/{database}")
        case _:
            return _server(kind, rest)


def _server(kind: str, rest: str) -> DatabaseAddress:
    found = _SERVER.fullmatch(rest)
    if found is None:
        raise JdbcUrlError(f"such a URL reads jdbc:{kind}://host:port/database")
    parameters = dict(parse_qsl(found["query"] or ""))
    mine = {key: parameters[key] for key in _KEPT.get(kind, ()) if key in parameters}
    if kind == "postgresql" and "currentSchema" in parameters:
        mine["options"] = f"-csearch_path={parameters['currentSchema']}"
    kept = urlencode(mine)
    person, _, place = found["place"].rpartition("@")
    user, _, password = person.partition(":")
    url = f"{DRIVERS[kind]}://{place}/{quote(found['database'] or '')}{'?' + kept if kept else ''}"
    return DatabaseAddress(url, parameters.get("user", unquote(user)), parameters.get("password", unquote(password)))


def _sql_server(rest: str) -> DatabaseAddress:
    found = _SQLSERVER.fullmatch(rest)
    if found is None:
        raise JdbcUrlError("such a URL reads jdbc:sqlserver://host:port;databaseName=…")
    pairs = (part.partition("=") for part in found["parameters"].split(";") if part)
    parameters = {key.strip().casefold(): value for key, _, value in pairs}
    database = parameters.get("databasename", parameters.get("database", ""))
    user = parameters.get("user", parameters.get("username", ""))
    url = f"{DRIVERS['sqlserver']}://{found['place']}/{quote(database)}"
    return DatabaseAddress(url, user, parameters.get("password", ""))
