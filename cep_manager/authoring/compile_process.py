"""A process that compiles plans until its input ends, so that expensive texts do not load the manager.

Requests are read from standard input, responses are written to standard output. A request that exceeds its limit of CPU
time or memory ends the process.
"""

from __future__ import annotations

import os
import resource
import signal
import sys

import msgspec

from cep_manager.authoring.compile_messages import READY, CompileRequest, read_frame, write_frame
from siddhi.confinement import end_with_parent


def main() -> None:
    """Answer requests until standard input ends."""
    end_with_parent()
    # Output of a library must not be mixed with the responses.
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
