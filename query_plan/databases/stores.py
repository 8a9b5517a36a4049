"""What `@Store(type='rdbms', …)` of a table says: the database's table that has its rows.

    @Store(type='rdbms', jdbc.url='jdbc:postgresql://db/stocks', username='cep', password.file='/etc/cep/db.password')
    @PrimaryKey('symbol')
    define table Limits (symbol string, most double);

Of an execution plan it may be `@From(eventtable='rdbms', …)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from query_plan.databases.jdbc_urls import JdbcUrlError, from_jdbc
from siddhi.analysis import model
from siddhi.errors import SiddhiParseError
from siddhi.language import ast
from siddhi.language.parser import parse_time

STORE_OPTIONS = (
    "jdbc.url", "url", "username", "password", "password.file", "datasource", "table.name", "field.length",
    "refresh.interval", "create",
)  # fmt: skip
"""The options of a store of type `rdbms`."""
UNHEEDED = {
    "jdbc.driver.name": "the URL determines the driver",
    "pool.properties": "a table has one connection",
    "jndi.resource": "there is no JNDI; name a datasource of the driver's configuration",
    "use.collation": "conditions are judged in memory",
    "allow.null.values": "null is always allowed",
    "on.error": "a database that does not respond is retried until it does",
}
"""Options of Siddhi's store without effect on results, and why."""
REFRESH_MS = 1_000
LONGEST_REFRESH_MS = 24 * 3_600_000


class StoreError(ValueError):
    """The annotation does not name a usable database; `kept_in_memory` when the table can be kept in memory instead."""

    def __init__(self, message: str, hint: str, span: ast.Span, *, kept_in_memory: bool = False) -> None:
        """Create the error.

        Args:
            message: What is wrong with the store.
            hint: What to write instead.
            span: Where it is in the plan.
            kept_in_memory: Whether the table can still be kept in memory.
        """
        super().__init__(message)
        self.hint = hint
        self.span = span
        self.kept_in_memory = kept_in_memory


@dataclass(frozen=True, slots=True)
class Store:
    """A database's table.

    `url` is SQLAlchemy's, or empty where `datasource` names a database that the operator has set up. `field_lengths`
    are those of its text columns, and may name columns that it does not have. The rows are read again every
    `refresh_ms`, 0: never. With `creates` a missing table is created.
    """

    table_name: str
    url: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    datasource: str = ""
    field_lengths: Mapping[str, int] = field(default_factory=dict)
    refresh_ms: int = REFRESH_MS
    creates: bool = True


def store_annotation(annotations: tuple[ast.Annotation, ...]) -> ast.Annotation | None:
    """Return the annotation that says where the rows of a table are kept, or None."""
    found = (one for one in annotations if one.namespace is None and one.name.casefold() in ("store", "from"))
    return next(found, None)


def store_of(table: model.AnalysedTable) -> Store | None:
    """Return where the rows of `table` are kept, None for a table in memory. Raise StoreError."""
    annotation = store_annotation(table.syntax.annotations)
    if annotation is None:
        return None
    legacy = annotation.name.casefold() == "from"
    by_name = "rdbms" if annotation.value("ref") else ""  # the operator has set up the store that it refers to
    type_ = (annotation.value("eventtable" if legacy else "type") or by_name).casefold()
    if type_ != "rdbms":
        message = f"no store of the type '{type_}' is known; the rows are kept in memory"
        hint = "use the type 'rdbms', or take it out and send rows from elsewhere as a stream"
        raise StoreError(message, hint, annotation.span, kept_in_memory=True)
    return _rdbms(table, annotation, legacy=legacy)


def _rdbms(table: model.AnalysedTable, annotation: ast.Annotation, *, legacy: bool) -> Store:
    for name, kind in table.schema.attributes:
        if kind is ast.AttributeType.OBJECT:
            message = f"the attribute '{name}' is an object, which cannot be stored in a column of a database"
            raise StoreError(message, "store its text, or leave the attribute out", annotation.span)
    password = annotation.value("password") or ""
    url, username, password = _address(annotation, annotation.value("username") or "", password)
    datasource = annotation.value("datasource.name" if legacy else "datasource") or annotation.value("ref") or ""
    if not url and not datasource:
        message = "it names no database"
        hint = "write jdbc.url='jdbc:…', url='…' with an SQLAlchemy URL, or the name of a datasource='…'"
        kept = annotation.value("jndi.resource") is not None
        raise StoreError(message, hint, annotation.span, kept_in_memory=kept)
    return Store(
        table_name=annotation.value("table.name") or table.schema.id,
        url=url,
        username=username,
        password=password,
        password_file=annotation.value("password.file") or "",
        datasource="" if url else datasource,
        field_lengths=_field_lengths(annotation, table.schema),
        refresh_ms=_refresh_ms(annotation),
        creates=_truth(annotation, "create"),
    )


def _address(annotation: ast.Annotation, username: str, password: str) -> tuple[str, str, str]:
    """Return the URL for SQLAlchemy, the user and the password; options take precedence over the URL."""
    text = annotation.value("jdbc.url") or annotation.value("url") or ""
    if not text.casefold().startswith("jdbc:"):
        if annotation.value("jdbc.url"):
            raise StoreError("jdbc.url is not a JDBC URL", "write jdbc:<database>:…", annotation.span)
        return text, username, password
    try:
        found = from_jdbc(text)
    except JdbcUrlError as error:
        hint = "use a database that Python can reach, such as jdbc:postgresql://host/database"
        raise StoreError(f"jdbc.url: {error}", hint, annotation.span, kept_in_memory=error.java_only) from error
    return found.url, username or found.username, password or found.password


def _field_lengths(annotation: ast.Annotation, schema: model.Schema) -> dict[str, int]:
    """Return text lengths by attribute, in any letter case, from a text such as `symbol:100, name:500`."""
    attributes = {name.casefold(): name for name in schema.names()}
    lengths: dict[str, int] = {}
    for part in (annotation.value("field.length") or "").split(","):
        name, _, length = (piece.strip() for piece in part.partition(":"))
        if not part.strip():
            continue
        if not name or not (length.isascii() and length.isdigit()) or not 0 < int(length[:9]) < 10**8:
            message = f"field.length: '{part.strip()}' is not an attribute and the length of its text"
            raise StoreError(message, "write field.length='symbol:100, name:500'", annotation.span)
        lengths[name if name in schema else attributes.get(name.casefold(), name)] = int(length)
    return lengths


def _refresh_ms(annotation: ast.Annotation) -> int:
    text = annotation.value("refresh.interval")
    if text is None:
        return REFRESH_MS
    try:
        refresh_ms = int(text) if text.strip().isdecimal() else parse_time(text).milliseconds
    except (SiddhiParseError, ValueError):
        refresh_ms = -1
    if not 0 <= refresh_ms <= LONGEST_REFRESH_MS:
        hint = "write a time of up to a day, such as 5 sec; 0 never reads the rows again"
        raise StoreError(f"refresh.interval: '{text}' is not such a time", hint, annotation.span)
    return refresh_ms


def _truth(annotation: ast.Annotation, key: str) -> bool:
    text = (annotation.value(key) or "true").casefold()
    if text not in ("true", "false"):
        raise StoreError(f"{key}: '{text}' is neither true nor false", f"write {key}='false'", annotation.span)
    return text == "true"
