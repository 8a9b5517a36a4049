"""Searches with libFuzzer for texts on which the language breaks: anything but an app or a SiddhiError.

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris -r requirements.lock
    PYTHONPATH=. /tmp/fuzz/bin/python tools/fuzz_parser.py CORPUS [-max_total_time=3600] [other options of libFuzzer]

CORPUS is a directory: it is made and filled with the apps of the conformance cases when it is not there, and grows by
the texts that reach new code. What breaks the language is written beside it as `crash-…`.
"""

from __future__ import annotations

import json
import lzma
import re
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["siddhi", "lark"]):
    from siddhi.analysis.analyser import analyse
    from siddhi.errors import SiddhiError
    from siddhi.language.parser import parse, parse_on_demand_query
    from siddhi.language.printer import print_app

ROOT = Path(__file__).parents[1]
_CASES = ROOT / "tests" / "conformance" / "cases.jsonl.xz"
_WORD = re.compile(r"^_?[A-Z_]+\.\d+: /(\w+)", re.MULTILINE)


def try_text(data: bytes) -> None:
    """Raises what is no SiddhiError, and when an app that was printed is read as another."""
    text = data.decode("utf-8", "replace")
    try:
        parse_on_demand_query(text)
    except SiddhiError as error:
        error.render(text)
    try:
        app = parse(text)
        if parse(print_app(app)) != app:
            raise AssertionError("the printed app is another one")
        analyse(app)
    except SiddhiError as error:
        error.render(text)


def fill(corpus: Path) -> None:
    """`corpus` has the apps of all conformance cases."""
    corpus.mkdir(parents=True)
    with lzma.open(_CASES, "rt", encoding="utf-8") as cases:
        for number, line in enumerate(cases):
            (corpus / f"case-{number:04}").write_text(json.loads(line)["app"], encoding="utf-8")


def write_dictionary(path: Path) -> None:
    """`path` has the words of the grammar, for the mutations to use."""
    grammar = (ROOT / "siddhi" / "language" / "grammar.lark").read_text(encoding="utf-8")
    words = sorted({*_WORD.findall(grammar), "#window.", "->", "@app:", "e1=", "[last]", " within ", "1 sec"})
    path.write_text("".join(f'"{word}"\n' for word in words), encoding="utf-8")


def main(corpus: Path, options: list[str]) -> None:
    """Runs until libFuzzer ends."""
    if not corpus.exists():
        fill(corpus)
    dictionary = corpus.with_name(f"{corpus.name}.words")
    write_dictionary(dictionary)
    prefix = f"-artifact_prefix={corpus.parent}/"
    atheris.Setup([sys.argv[0], str(corpus), f"-dict={dictionary}", prefix, "-max_len=4096", *options], try_text)
    atheris.Fuzz()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), sys.argv[2:])
