"""The messages between the manager and the process that compiles plans: each is its length, then MessagePack."""

from __future__ import annotations

import struct
from typing import IO

import msgspec

from cep_manager.authoring.model import Preview, Validation
from cep_manager.errors import PlanProblem
from cep_manager.plans.compiled_plan import CompiledPlan
from query_plan.checks.reach import WorkerReach

LENGTH = struct.Struct("!I")
READY = b"ready"
"""The first message, sent when the compiler is loaded."""


class CompileRequest(msgspec.Struct, frozen=True):
    """What to compile, and its limits.

    `checked` checks only its language. `languages` are those in which it may define functions (None allows all),
    `setting` names the setting that allows others; `reaches` is what plans may access. `cpu_s`, `memory_bytes` and
    `most_words` are its limits.
    """

    wanted: str
    tenant: int
    text: str
    languages: tuple[str, ...] | None
    setting: str
    reaches: WorkerReach
    cpu_s: float
    memory_bytes: int
    most_words: int


class Validated(msgspec.Struct, frozen=True, tag="validated"):
    """The answer to a request to validate a plan."""

    found: Validation


class CompileResult(msgspec.Struct, frozen=True, tag="compiled"):
    """The answer to a request to compile a plan."""

    plan: CompiledPlan


class Previewed(msgspec.Struct, frozen=True, tag="previewed"):
    """The answer to a request for a preview."""

    preview: Preview


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """The text is SiddhiQL without errors."""


class Invalid(msgspec.Struct, frozen=True, tag="invalid"):
    """The answer for a plan with errors."""

    problems: tuple[PlanProblem, ...]


CompileAnswer = Validated | CompileResult | Previewed | Checked | Invalid


def read_frame(stream: IO[bytes]) -> bytes:
    """Return the next message; empty at the end of the stream."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return b""
    (length,) = LENGTH.unpack(head)
    return stream.read(length)


def write_frame(stream: IO[bytes], message: bytes) -> None:
    """Write a message."""
    stream.write(LENGTH.pack(len(message)) + message)
    stream.flush()
