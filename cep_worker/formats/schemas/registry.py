"""Client of a schema registry that speaks Confluent's REST API.

    GET  /schemas/ids/<id>                      the schema that a body refers to
    GET  /subjects/<subject>/versions/<version> the schema that a plan names
    POST /subjects/<subject>/versions           registers a plan's own schema and returns its number

A schema with a number never changes, so schemas are cached. Requests use `WebClient`: responses are bounded, redirects
are not followed, and connections go only to allowed addresses.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec

from cep_common.reach.connecting import ReachError, allowed_addresses
from cep_common.reach.guard import Guard, UrlUse
from cep_common.web.client import Answer, WebClient
from cep_worker.formats.schemas.kept import KeptBySize
from cep_worker.formats.schemas.problems import MOST_SCHEMA_BYTES, SchemaError, SchemaUnavailableError, short

MOST_KEPT = 1_000
MOST_KEPT_BYTES = 16_777_216
"""The number and approximate size of the cached schemas of a registry."""
MOST_REFERENCES = 64
MOST_WHOLE_BYTES = 4 * MOST_SCHEMA_BYTES
"""The most schemas that a schema may refer to, directly or indirectly, and their total length."""
TIMEOUT_S, LOOKUP_S = 5.0, 15.0
"""Seconds for one request, and for all requests of a schema with its references."""
PAUSE_S = 1.0
"""How long to wait after a registry did not respond."""
UNKNOWN_S = 30.0
"""How long to wait before a number that was unknown to the registry is requested again."""
AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
"""Bytes that never occur in the text of a schema, but in every binary descriptor."""
_BINARY = "a set of descriptors cannot be registered: name a .proto file"
_REFERENCE = re.compile(r"[^\x00-\x1f\\]{1,500}")


class _Reference(msgspec.Struct, frozen=True):
    name: str
    subject: str
    version: int


class _Found(msgspec.Struct, frozen=True, rename="camel"):
    """A schema as a registry answers it."""

    schema: str
    id: int = -1
    schema_type: str = AVRO
    references: tuple[_Reference, ...] = ()


class _RegisteredId(msgspec.Struct, frozen=True):
    id: int


class _Refusal(msgspec.Struct, frozen=True):
    error_code: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema, its number in the registry (-1: none), and its references by name, dependencies first."""

    type: str
    text: str | bytes
    id: int = -1
    references: tuple[tuple[str, str], ...] = ()

    def size(self) -> int:
        """Return the size of the schema with its references."""
        return len(self.text) + sum(len(text) for _, text in self.references)


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """The address and credentials of a registry. `guard` checks addresses of its host; None allows any."""

    url: str
    credentials: tuple[str, str] | None = field(default=None, repr=False)
    trusted: str = ""
    certificate: str = ""
    guard: Guard | None = None
    use: UrlUse = "source"

    def client(self) -> WebClient:
        """Return a client for its requests."""
        addresses = None if self.guard is None else partial(_allowed, self.guard, self.use)
        return WebClient(
            2 * MOST_SCHEMA_BYTES, self.credentials, addresses, trusted=self.trusted, certificate=self.certificate
        )


class SchemaRegistry:
    """A cached view of a registry. Thread-safe; it sends one request at a time."""

    def __init__(self, address: RegistryAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = address.url.strip().rstrip("/")
        self._client = address.client()
        self._clock = clock
        self._lock = threading.Lock()
        self._by_id = KeptBySize[RegisteredSchema](MOST_KEPT, MOST_KEPT_BYTES)
        self._unknown = KeptBySize[tuple[float, str]](MOST_KEPT, MOST_KEPT_BYTES)
        self._problem = ""
        self._failed_at = self._until = 0.0

    def by_id(self, number: int) -> RegisteredSchema:
        """Return the schema with this number.

        Raises:
            SchemaError: there is none, or it cannot be used.
            SchemaUnavailableError: the registry does not say now.
        """
        # Known schemas must not wait for a running request of other callers.
        if (known := self._by_id.get(number)) is not None:
            return known
        with self._turn():
            if (known := self._by_id.get(number)) is not None:
                return known
            if (unknown := self._unknown.get(number)) is not None and self._clock() - unknown[0] < UNKNOWN_S:
                raise SchemaError(unknown[1])
            try:
                found = self._whole(self._found("GET", f"/schemas/ids/{number}", f"schema {number}"), number)
            except SchemaError as error:
                self._unknown.put(number, (self._clock(), error.message), len(error.message))
                raise
            self._by_id.put(number, found, found.size())
            return found

    def by_subject(self, subject: str, version: str) -> RegisteredSchema:
        """Return a version of a subject, `latest` or a number.

        Raises:
            SchemaError: there is none, or it cannot be used.
            SchemaUnavailableError: the registry does not say now.
        """
        with self._turn():
            return self._version(subject, version, MOST_REFERENCES)

    def register(self, subject: str, schema: RegisteredSchema) -> RegisteredSchema:
        """Return the schema with its number, under which the registry keeps it as a version of `subject`.

        Raises:
            SchemaError: the registry refuses it, usually because it is incompatible with earlier versions.
            SchemaUnavailableError: the registry does not say now.
        """
        body = {"schema": _text_of(schema), **({} if schema.type == AVRO else {"schemaType": schema.type})}
        path = f"/subjects/{quote(subject, safe='')}/versions"
        with self._turn():
            answer = self._ask("POST", path, f"subject {subject}", body)
            return RegisteredSchema(schema.type, schema.text, self._read(answer, _RegisteredId).id)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Acquire the registry for one lookup."""
        if not self._lock.acquire(timeout=TIMEOUT_S):
            raise SchemaUnavailableError("the schema registry is slow: another request is still running")
        try:
            self._until = self._clock() + LOOKUP_S
            yield
        finally:
            self._lock.release()

    def _version(self, subject: str, version: str, left: int) -> RegisteredSchema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        what = f"version {version} of subject {subject}"
        return self._whole(self._found("GET", path, what), -1, left)

    def _found(self, method: str, path: str, what: str) -> _Found:
        found: _Found = self._read(self._ask(method, path, what), _Found)
        if len(found.schema.encode(errors="replace")) > MOST_SCHEMA_BYTES:
            raise SchemaError(f"{what} is longer than {MOST_SCHEMA_BYTES:,} bytes")
        return found

    def _whole(self, found: _Found, number: int, left: int = MOST_REFERENCES) -> RegisteredSchema:
        """Return the schema with its references."""
        references: dict[str, str] = {}
        self._add(found, references, left, ())
        id_ = number if number >= 0 else found.id
        return RegisteredSchema(found.schema_type.upper(), found.schema, id_, tuple(references.items()))

    def _add(self, found: _Found, references: dict[str, str], left: int, path: tuple[str, ...]) -> None:
        """Add the references of `found`, each after its own references."""
        for one in found.references:
            if one.name in references:
                continue
            if one.name in path:
                raise SchemaError(f"its references form a cycle: {one.name[:80]}")
            if len(references) + len(path) >= left:
                raise SchemaError(f"it refers to more than {MOST_REFERENCES} other schemas")
            if _REFERENCE.fullmatch(one.name) is None:
                raise SchemaError(f"{one.name[:80]!r} is not a name of a reference")
            where = f"/subjects/{quote(one.subject, safe='')}/versions/{one.version}"
            other = self._found("GET", where, f"version {one.version} of subject {one.subject[:80]}")
            self._add(other, references, left, (*path, one.name))
            references[one.name] = other.schema
            if sum(map(len, references.values())) > MOST_WHOLE_BYTES:
                raise SchemaError(f"what it refers to is longer than {MOST_WHOLE_BYTES:,} bytes")

    def _ask(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> Answer:
        if self._problem and self._clock() - self._failed_at < PAUSE_S:
            raise SchemaUnavailableError(self._problem)
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": ACCEPT} | ({} if body is None else {"Content-Type": ACCEPT.partition(",")[0]})
        with self._watched():
            left_s = self._until - self._clock()
            if left_s <= 0:
                raise SchemaUnavailableError(f"the schema registry is slow: {what} is needed after {LOOKUP_S:.0f} s")
            limit_s = min(TIMEOUT_S, left_s)
            answer = self._client.request(method, f"{self._url}{path}", timeout_s=limit_s, data=data, headers=headers)
            refusal = _refusal(answer)
            if answer.status in (404, 409, 422) and refusal.error_code:
                raise SchemaError(
                    f"the schema registry refuses {what}: {short(refusal.message)} ({refusal.error_code})"
                )
            if answer.status in (401, 403):
                raise SchemaUnavailableError(
                    f"the schema registry refuses the user (status {answer.status}): check basic.auth.username, "
                    "basic.auth.password and the "
                    "user's permissions"
                )
            if not answer.ok:
                said = f": {short(refusal.message)}" if refusal.message else "; check schema.registry"
                raise SchemaUnavailableError(f"the schema registry responded with status {answer.status}{said}")
            if answer.problem:
                raise SchemaUnavailableError(f"the response of the schema registry cannot be used: {answer.problem}")
        return answer

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Make a request, and remember a registry that does not respond, so that not every event waits for it."""
        try:
            yield
        except (OSError, ReachError, SchemaUnavailableError) as error:  # what `requests` raises is an OSError
            if isinstance(error, SchemaUnavailableError | ReachError):
                said = (
                    error.message if isinstance(error, SchemaUnavailableError) else f"schema.registry: {error.message}"
                )
            else:
                said = f"the schema registry does not respond ({type(error).__name__}); check schema.registry"
            self._problem, self._failed_at = said, self._clock()
            raise SchemaUnavailableError(said) from error
        self._problem = ""

    @staticmethod
    def _read(answer: Answer, kind: type[Any]) -> Any:
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise SchemaUnavailableError(f"this is not a response of a schema registry: {short(error)}") from error


def _text_of(schema: RegisteredSchema) -> str:
    try:
        text = schema.text if isinstance(schema.text, str) else schema.text.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(_BINARY) from error
    if _CONTROL.search(text) is not None:
        raise SchemaError(_BINARY)
    return text


def _refusal(answer: Answer) -> _Refusal:
    if answer.ok:
        return _Refusal()
    try:
        return msgspec.json.decode(answer.body, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Refusal()


def _allowed(guard: Guard, use: UrlUse, scheme: str, host: str, port: int) -> list[str]:
    return allowed_addresses(guard, scheme, host, port, use)
