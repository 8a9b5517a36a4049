"""One trial: the request on standard input, the answer on standard output. Exit code 0 whenever there is an answer."""

from __future__ import annotations

import os
import resource
import signal
import sys

import msgspec

from siddhi.trial.messages import TrialRequest

MOST_FILE_BYTES = 64 * 2**20


def main() -> None:
    """The answer stands on standard output; the process can have used no more than the request allows."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=TrialRequest)
    limit(request)
    # What a plan's script or a library prints must not stand in the answer.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from siddhi.trial.run import run_trial  # noqa: PLC0415 - the engine is loaded under the limits

    answers.write(msgspec.json.encode(run_trial(request)))
    answers.close()


def limit(request: TrialRequest) -> None:
    """Time and memory are bounded, even when nobody waits any more; no core is dumped, and files that are written
    (caches of compiled kernels) stay small."""
    signal.alarm(request.seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (request.seconds, request.seconds))
    resource.setrlimit(resource.RLIMIT_AS, (request.memory_bytes, request.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_BYTES, MOST_FILE_BYTES))


if __name__ == "__main__":
    main()
