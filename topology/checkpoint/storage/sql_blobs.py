"""Checkpoints in a relational database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy
from sqlalchemy import BigInteger, Column, Connection, Integer, LargeBinary, MetaData, String, Table, func, select
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from topology.checkpoint.errors import CheckpointUnreadableError, StoreUnreachableError
from topology.checkpoint.storage.blobs import Buffer, Range

PART_BYTES = 4 * 1024 * 1024
"""The maximum size of a row's value, since databases load values into memory as a whole."""

LOCKED_S = 30.0
"""How long to wait while another process writes to a SQLite file."""

METADATA = MetaData()
PARTS = Table(
    "cep_checkpoint_parts",
    METADATA,
    Column("folder", String(300), primary_key=True),
    Column("name", String(200), primary_key=True),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
)


class SqlBlobs:
    """Rows of a table in the database at `url` (SQLAlchemy); each name is written in one transaction."""

    def __init__(self, url: str) -> None:
        """Connect to the database and create the table if needed. Raise StoreUnreachableError when that fails."""
        try:
            parsed = make_url(url)
            self.shown = parsed.render_as_string(hide_password=True)
            options: dict[str, object] = {}
            if parsed.get_backend_name() == "sqlite" and parsed.database:
                Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
                options = {"connect_args": {"timeout": LOCKED_S}}
            self._engine = sqlalchemy.create_engine(parsed, **options)
        except (ArgumentError, NoSuchModuleError, ImportError, OSError) as error:
            raise StoreUnreachableError(f"checkpoint.location: the database cannot be used: {error}") from error
        with self._transaction() as connection:
            METADATA.create_all(connection)

    def put(self, name: str, pieces: Sequence[Buffer]) -> None:
        with self._transaction() as connection:
            connection.execute(PARTS.delete().where(_is(name)))
            folder, _, last = name.rpartition("/")
            for number, data in enumerate(_parts(pieces)):
                row = {"folder": folder, "name": last, "part": number, "size_bytes": len(data), "data": data}
                connection.execute(PARTS.insert().values(row))

    def get(self, name: str) -> bytes:
        with self._transaction() as connection:
            found = connection.scalars(select(PARTS.c.data).where(_is(name)).order_by(PARTS.c.part)).all()
        if not found:
            raise self._missing(name)
        return b"".join(found)

    def get_ranges(self, name: str, ranges: Sequence[Range]) -> list[bytes]:
        with self._transaction() as connection:
            return [self._range(connection, name, offset, length) for offset, length in ranges]

    def sizes(self, folder: str) -> dict[str, int]:
        query = select(PARTS.c.name, func.sum(PARTS.c.size_bytes)).where(PARTS.c.folder == folder)
        with self._transaction() as connection:
            return {name: int(size) for name, size in connection.execute(query.group_by(PARTS.c.name))}

    def folders(self, folder: str) -> tuple[str, ...]:
        prefix = f"{folder}/" if folder else ""
        with self._transaction() as connection:
            known = connection.scalars(select(PARTS.c.folder).distinct()).all()
        below = {one.removeprefix(prefix).partition("/")[0] for one in known if one.startswith(prefix)}
        return tuple(sorted(below))

    def delete(self, name: str) -> None:
        with self._transaction() as connection:
            connection.execute(PARTS.delete().where(_is(name)))

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _range(self, connection: Connection, name: str, offset: int, length: int) -> bytes:
        first, last = offset // PART_BYTES, (offset + max(length, 1) - 1) // PART_BYTES
        within = PARTS.c.part.between(first, last)
        query = select(PARTS.c.data).where(_is(name), within).order_by(PARTS.c.part)
        found = connection.scalars(query).all()
        if not found:
            raise self._missing(name)
        start = offset - first * PART_BYTES
        data = b"".join(found)[start : start + length]
        if len(data) != length:
            raise CheckpointUnreadableError("torn", f"{name} ends before byte {offset + length}")
        return data

    def _missing(self, name: str) -> CheckpointUnreadableError:
        return CheckpointUnreadableError("missing", f"{name} is not in {self.shown}")

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise StoreUnreachableError(f"the database {self.shown} cannot be used: {cause}") from error


def _is(name: str) -> sqlalchemy.ColumnElement[bool]:
    folder, _, last = name.rpartition("/")
    return sqlalchemy.and_(PARTS.c.folder == folder, PARTS.c.name == last)


def _parts(pieces: Iterable[Buffer]) -> Iterator[bytes]:
    """Yield the pieces cut to the same size, except for the last; one empty piece when there are none."""
    waiting = bytearray()
    none = True
    for piece in pieces:
        waiting += piece
        while len(waiting) >= PART_BYTES:
            yield bytes(waiting[:PART_BYTES])
            del waiting[:PART_BYTES]
            none = False
    if waiting or none:
        yield bytes(waiting)
