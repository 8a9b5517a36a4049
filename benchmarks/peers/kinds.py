"""The kinds of queries that are compared, read from `kinds/*.siddhi`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = """@app:playback
define stream S (symbol string, price double, volume long, ts long);
define stream T (symbol string, price double, volume long, ts long);
"""
_FOLDER = Path(__file__).parent / "kinds"
_TITLE = re.compile(r"^-- kind (?P<name>\w+)(?P<options>.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class QueryKind:
    """One kind of query, which reads S, or S and T in turn (`two`), and feeds Out.

    `rows` are sent to T before anything is measured, for the table or window that the kind looks into.
    `peer` is false where the released Siddhi lacks what the kind needs.
    """

    name: str
    group: str
    app: str
    two: bool = False
    rows: int = 0
    peer: bool = True


def kinds() -> list[QueryKind]:
    """Return all kinds of `kinds/*.siddhi`, and those with many rules, which are made here."""
    return [*kinds_of_folder(_FOLDER), _rules(20), _rules(1_000)]


def kinds_of_folder(folder: Path) -> list[QueryKind]:
    """Return the kinds of the `*.siddhi` files of a folder; the name of the file is their group."""
    files = sorted(folder.glob("*.siddhi"))
    return [kind for file in files for kind in _read(file.stem, file.read_text(encoding="utf-8"))]


def _read(group: str, text: str) -> Iterator[QueryKind]:
    titles = list(_TITLE.finditer(text))
    for title, following in zip(titles, [*titles[1:], None], strict=True):
        app = HEAD + text[title.end() : following.start() if following else None].strip()
        options = title["options"].split()
        (rows,) = [int(option.removeprefix("rows=")) for option in options if option.startswith("rows=")] or [0]
        yield QueryKind(title["name"], group, app, "two" in options, rows, "no-peer" not in options)


def _rules(count: int) -> QueryKind:
    """Return `count` filters on one stream, of which a hundredth looks at the same symbol."""
    conditions = (f"symbol == 'S{number % 100}' and price > {90 + number % 97 / 10}" for number in range(count))
    rules = (f"from S[{condition}] select symbol, price insert into Out;\n" for condition in conditions)
    return QueryKind(f"rules{count}", "simple", HEAD + "".join(rules))


def kinds_of_file(file: Path) -> list[QueryKind]:
    """Return the kinds of a JSON file: by name, `app`, and where needed `two` and `table_rows`."""
    document = json.loads(file.read_text(encoding="utf-8"))
    return [
        QueryKind(name, file.stem, case["app"], bool(case.get("two")), int(case.get("table_rows", 0)))
        for name, case in document.items()
    ]
