"""Searches for bytes on which something breaks that reads them: see TARGETS in tools/fuzz_targets.

    PYTHONPATH=. .venv/bin/python tools/fuzz.py TARGET --inputs 1000000 [--seed 1]

mutates inputs that make sense and reports the memory used before and after. The last input that was tried is kept in
`last-TARGET` in the present folder: the one that broke the target, even if it took the process with it. With libFuzzer,
which looks for inputs that reach new code:

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris -r requirements.lock
    PYTHONPATH=. /tmp/fuzz/bin/python tools/fuzz.py TARGET --corpus CORPUS [-max_total_time=3600] [libFuzzer's options]

CORPUS is a directory: it is made and filled with inputs that make sense when it is not there, and grows by those that
reach new code. What breaks the target is written beside it as `crash-…`. Inputs that broke something once are kept in
tests/tools/fuzz_corpus/TARGET, and tried with every run of the tests.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from tools.fuzz_mutations import mutated

REPORT_EVERY_S = 30

INSTRUMENTED = {
    "registry": ["cep_common", "cep_manager"],
    "links": ["cep_common", "topology"],
    "batches": ["topology"],
    "http": ["cep_worker"],
    "xml": ["query_plan"],
    "yaml": ["cep_common", "yaml"],
    "language": ["siddhi.language", "siddhi.analysis", "lark"],
}
"""The packages in which libFuzzer looks for new ways, by target. Not the engine: what numba compiles must stay."""


class LastInput:
    """A file that holds one input at a time, and outlives a crash."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w+b", buffering=0)

    def keep(self, data: bytes) -> None:
        """Write `data` to the file, in place of its content."""
        self._file.seek(0)
        self._file.write(data)
        self._file.truncate()


def run_mutations(name: str, inputs: int, seed: int) -> None:
    """Try `inputs` inputs. Raise what the target raises, after writing the input to a file."""
    from tools.fuzz_targets import TARGETS  # noqa: PLC0415 - under libFuzzer it is imported otherwise

    target = TARGETS[name]
    seeds = list(target.seeds())
    began_s = reported_s = time.monotonic()
    warm_bytes = 0
    last = LastInput(Path(f"last-{name}"))
    for number, data in enumerate(mutated(seeds, inputs, seed)):
        last.keep(data)
        target.run(data)
        if number == inputs // 10:
            warm_bytes = _memory_bytes()
        if time.monotonic() - reported_s > REPORT_EVERY_S:
            reported_s = time.monotonic()
            sys.stderr.write(f"{name}: {number} inputs, {_memory_bytes() >> 20} MiB\n")
    took_s = time.monotonic() - began_s
    grown_kib = (_memory_bytes() - warm_bytes) >> 10
    memory = f"memory={warm_bytes >> 20} MiB grown={grown_kib} KiB"
    sys.stdout.write(f"fuzz: target={name} inputs={inputs} seconds={took_s:.0f} {memory}\n")


def run_libfuzzer(name: str, corpus: Path, options: list[str]) -> None:
    """Run until libFuzzer ends."""
    import atheris  # noqa: PLC0415 - not installed where only mutations are wanted

    include = INSTRUMENTED.get(name, [])
    with atheris.instrument_imports(include=include):
        targets: Any = importlib.import_module("tools.fuzz_targets")
    target = targets.TARGETS[name]
    if not corpus.exists():
        corpus.mkdir(parents=True)
        for number, data in enumerate(target.seeds()):
            (corpus / f"seed-{number:04}").write_bytes(data)
    prefix = f"-artifact_prefix={corpus.parent}/"
    atheris.Setup([sys.argv[0], str(corpus), prefix, "-max_len=4096", *options], target.run)
    atheris.Fuzz()


def _memory_bytes() -> int:
    """Return the memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--inputs", type=int)
    way.add_argument("--corpus", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    given, options = parser.parse_known_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if given.corpus:
        run_libfuzzer(given.target, given.corpus, options)
    else:
        run_mutations(given.target, given.inputs, given.seed)


if __name__ == "__main__":
    main()
