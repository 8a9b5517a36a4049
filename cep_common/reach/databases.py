"""Databases in plans' URLs: which servers and files a URL refers to, and whether plans may access these."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import URL, exc

from cep_common.reach.guard import FileUse, Guard
from cep_common.reach.rules import DEFAULT_PORTS

SERVERS = {
    "postgresql": ("psycopg", "psycopg2", "pg8000", "asyncpg"),
    "mysql": ("pymysql", "mysqldb", "mysqlconnector", "mariadbconnector"),
    "mariadb": ("pymysql", "mysqldb", "mysqlconnector", "mariadbconnector"),
    "mssql": ("pymssql",),
    "oracle": ("oracledb", "cx_oracle"),
}
"""Databases behind a host and a port, with the drivers whose URLs are understood."""
PARAMETERS = frozenset(
    {
        "sslmode", "connect_timeout", "application_name", "options", "charset", "service_name", "timeout",
        "client_encoding", "target_session_attrs", "keepalives", "ssl_mode",
    }
)  # fmt: skip
"""Parameters of URLs that open no files and name no other hosts. Others, such as `host` or `passfile`, are refused."""


def refuse_database(text: str | URL, guard: Guard, use: FileUse = "sink") -> str:
    """Return why a plan may not use the database at the URL `text`; empty when it may.

    The result is empty for an invalid URL, too, which is reported elsewhere.
    """
    try:
        url = sqlalchemy.make_url(text)
        backend, driver = url.get_backend_name(), url.get_driver_name()
    except (exc.ArgumentError, exc.NoSuchModuleError, ImportError, ValueError, TypeError):
        return ""
    if unknown := sorted(set(url.query) - PARAMETERS):
        return f"the parameter {unknown[0]} may not be used in a plan"
    if backend == "sqlite":
        return _refuse_sqlite(url, driver, guard, use)
    if backend not in SERVERS or driver not in SERVERS[backend]:
        return f"{backend}+{driver} is not a database that plans may use; these are sqlite, {', '.join(SERVERS)}"
    host = url.host or "localhost"
    port = url.port or DEFAULT_PORTS[backend][0]
    return guard.refuse_url(backend, host, port)


def host_of(url: URL) -> tuple[str, str, int] | None:
    """Return scheme, host and port of the server of a URL that was checked before; None for a file."""
    backend = url.get_backend_name()
    if backend not in SERVERS:
        return None
    return backend, url.host or "localhost", url.port or DEFAULT_PORTS[backend][0]


def _refuse_sqlite(url: URL, driver: str, guard: Guard, use: FileUse) -> str:
    file = url.database or ""
    if driver != "pysqlite":
        return f"sqlite+{driver} is not a database that plans may use; write sqlite:///…"
    if file in ("", ":memory:"):
        return ""
    if file.casefold().startswith("file:"):
        return f"{file} may not be used: write the path of the file, without file:"
    return guard.refuse_file(file, use)
