"""A process that compiles plans of others, one after the other, until its input ends: what a text costs, it costs here.

Requests come on standard input, answers go to standard output, each as its length and MessagePack. A request that needs
more CPU time or memory than it may ends the process.
"""

from __future__ import annotations

import os
import resource
import signal
import struct
import sys
from typing import IO

import msgspec

from cep_manager.authoring.model import Preview, Validation
from cep_manager.errors import PlanProblem
from cep_manager.plans.compiled_plan import CompiledPlan
from query_plan.checks.reach import WorkerReach

LENGTH = struct.Struct("!I")
READY = b"ready"
"""The first message: what compiles plans is loaded."""


class CompileRequest(msgspec.Struct, frozen=True):
    """What is wanted of a text.

    `checked` looks at its language alone. `languages` are those in which it may define functions (None: all), `setting`
    says what allows others; `reaches` is what plans may reach. `cpu_s`, `memory_bytes` and `most_words` are what it may
    cost.
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
    found: Validation


class CompileResult(msgspec.Struct, frozen=True, tag="compiled"):
    plan: CompiledPlan


class Previewed(msgspec.Struct, frozen=True, tag="previewed"):
    preview: Preview


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """The text is SiddhiQL without errors."""


class Invalid(msgspec.Struct, frozen=True, tag="invalid"):
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


def main() -> None:
    """Answer requests until standard input ends."""
    # What a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from cep_manager.authoring.compile_answers import answer_of  # noqa: PLC0415 - the first request waits for it anyway

    write_frame(answers, READY)
    decoder = msgspec.msgpack.Decoder(CompileRequest)
    while written := read_frame(sys.stdin.buffer):
        request = decoder.decode(written)
        resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_PROF, request.cpu_s)  # its signal ends the process
        answer = msgspec.msgpack.encode(answer_of(request))
        signal.setitimer(signal.ITIMER_PROF, 0)
        write_frame(answers, answer)


if __name__ == "__main__":
    main()
