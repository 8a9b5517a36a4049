"""Protobuf schemas → descriptors. The text of a `.proto` file is compiled by protoc, in a separate process.

The registry may also hold a base64 descriptor, which Confluent's Python client registers.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any

from cep_worker.formats.schemas.problems import MOST_SCHEMA_BYTES, SchemaError, SchemaUnavailableError, library, short
from cep_worker.formats.schemas.registry import PROTOBUF, RegisteredSchema

PROTOC = "grpc_tools.protoc"
COMPILE_S = 20.0
MAIN = "cep_event_schema.proto"
KNOWN_TYPES = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
"""Google's own types, which every schema may import."""
_PLACE = re.compile(r"[\w./-]+\.proto(:\d+|: )")
"""The start of an error of protoc, as opposed to a warning."""
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]+")
_NAME = re.compile(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*")


def proto_file(schema: RegisteredSchema) -> Any:
    """Return the schema's own file, in a pool with all types that it needs.

    Raises:
        SchemaError: it cannot be used.
    """
    if schema.type != PROTOBUF:
        raise SchemaError(f"it is of the type {schema.type[:20]}, not {PROTOBUF}")
    descriptors = library("google.protobuf.descriptor_pb2", "protobuf")
    files = _files(schema, descriptors)
    pool = library("google.protobuf.descriptor_pool", "protobuf").DescriptorPool()
    given = {one.name for one in files}
    try:
        for one in (*_known_files(descriptors, given), *_in_order(files)):
            pool.Add(one) if hasattr(pool, "Add") else pool.AddSerializedFile(one.SerializeToString())
        return pool.FindFileByName(files[-1].name)
    except (TypeError, KeyError, ValueError) as error:
        raise SchemaError(f"it is not a Protobuf schema: {short(error)}") from error


def _files(schema: RegisteredSchema, descriptors: Any) -> list[Any]:
    """Return the descriptors of the schema's files, its own one last."""
    if isinstance(schema.text, bytes):
        if (found := _descriptor_set(schema.text, descriptors)) is not None:
            return found
        try:
            text = schema.text.decode()
        except UnicodeDecodeError as error:
            raise SchemaError("it is neither a .proto file nor a set of descriptors") from error
    else:
        text = schema.text
    if (own := _descriptor(text, MAIN, descriptors)) is not None:
        others = [(name, _descriptor(other, name, descriptors)) for name, other in schema.references]
        if missing := [name for name, one in others if one is None]:
            raise SchemaError(f"its reference {missing[0]} is a text, the schema itself a descriptor")
        return [*(one for _, one in others), own]
    return _compiled(text, schema.references, descriptors)


def _descriptor(text: str, name: str, descriptors: Any) -> Any:
    """Return the file whose base64 descriptor is `text`, or None."""
    if _BASE64.fullmatch(text) is None:
        return None
    try:
        found = descriptors.FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
    except (binascii.Error, ValueError, library("google.protobuf.message", "protobuf").DecodeError):
        return None
    found.name = found.name or name
    return found if found.message_type or found.enum_type or found.dependency else None


def _descriptor_set(data: bytes, descriptors: Any) -> list[Any] | None:
    try:
        found = list(descriptors.FileDescriptorSet.FromString(data).file)
    except library("google.protobuf.message", "protobuf").DecodeError:
        return None
    return found if found and all(one.name for one in found) else None


def _compiled(text: str, references: tuple[tuple[str, str], ...], descriptors: Any) -> list[Any]:
    with tempfile.TemporaryDirectory(prefix="cep-proto-") as folder:
        for name, content in (*references, (MAIN, text)):
            if _NAME.fullmatch(name) is None or ".." in PurePosixPath(name).parts:
                raise SchemaError(f"{name[:80]!r} is not a name of a .proto file")
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", errors="replace")
        output = Path(folder) / "descriptors"
        # -P: the folder is not a place to import Python modules from. Standard input is closed.
        command = [
            sys.executable, "-P", "-m", PROTOC, f"-I{folder}", "--include_imports",
            f"--descriptor_set_out={output}", MAIN,
        ]  # fmt: skip
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter, and no shell
                command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=COMPILE_S, check=False
            )
        except (subprocess.TimeoutExpired, OSError) as error:
            raise SchemaUnavailableError(f"a Protobuf schema could not be compiled: {short(error)}") from error
        if done.returncode or not output.is_file():
            raise SchemaError(f"it is not a Protobuf schema: {_said(done.stderr, folder)}")
        if output.stat().st_size > 4 * MOST_SCHEMA_BYTES:
            raise SchemaError(f"with its imports it is longer than {4 * MOST_SCHEMA_BYTES:,} bytes")
        return list(descriptors.FileDescriptorSet.FromString(output.read_bytes()).file)


def _said(output: bytes, folder: str) -> str:
    """Return the first error of protoc, without the folder in which it ran."""
    text = output.decode(errors="replace").replace(f"{folder}/", "")
    if f"No module named '{PROTOC.partition('.')[0]}'" in text or "Error while finding module" in text:
        return "the package grpcio-tools, which compiles it, is not installed where the worker runs"
    lines = [line for line in text.splitlines() if _PLACE.match(line)]
    return short((lines or text.splitlines() or ["protoc failed"])[0].replace(f"{MAIN}:", "line "))


def _known_files(descriptors: Any, given: set[str]) -> list[Any]:
    """Return Google's own files that are not among those given."""
    found = []
    for name in KNOWN_TYPES:
        file = library(f"google.protobuf.{name}_pb2", "protobuf").DESCRIPTOR
        if file.name not in given:
            one = descriptors.FileDescriptorProto()
            file.CopyToProto(one)
            found.append(one)
    return _in_order(found)


def _in_order(files: list[Any]) -> list[Any]:
    """Return the files, each after those that it imports."""
    by_name = {one.name: one for one in files}
    ordered: dict[str, Any] = {}
    waiting = list(by_name)
    while waiting:
        ready = [name for name in waiting if not any(one in waiting for one in by_name[name].dependency)]
        if not ready:
            raise SchemaError("its files import each other in a cycle")
        ordered |= {name: by_name[name] for name in ready}
        waiting = [name for name in waiting if name not in ordered]
    return list(ordered.values())
