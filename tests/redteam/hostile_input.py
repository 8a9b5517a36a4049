"""Random and hostile requests to every call of an HTTP interface, and the tokens that they are sent with."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote

from flask import Flask

from cep_common.security.access import AccessRole
from cep_common.security.tokens import TokenFile

BODY_BYTES = 1_048_576
TENANT, OTHER = 7, 8
PLAN = """\
@Plan:name('Storms')
@Import('Departures:1.0.0') define stream Departures (origin string, delay int);
@Export('Late:1.0.0') define stream Late (origin string, delay int);
@info(name='late') from Departures[delay > 60] select origin, delay insert into Late;
"""
ODD = PLAN.replace("'Storms'", "'Odd'").replace("origin", '`or"i\\gin\t<b>`')
"""Names that are not those of anything else: a quote, a backslash, a tab and a tag."""
NAMES = (
    "Storms",
    "Odd",
    "late",
    "Late",
    "Departures",
    "Late:1.0.0",
    "Storms/Late",
    "worker-1",
    "driver",
    "admin",
    "0",
    "1",
    "-1",
)
NASTY = (
    "", " ", ".", "..", "../../etc/passwd", "\0", "%00", "\x7f", "\u202e", "\ud83d", "é", "'", '"', "\\", "\t", "\n",
    "\r\nX: y",
    "${secret:X}", "<script>", "'; drop table plans; --", "NaN", "Infinity", "1e309", "-0", "9" * 19, "9" * 400, "0x10",
    "١٢", "true", "null", "[]", "{}", "a" * 3_000, "/" * 300, "*", "?", "#", "%", "%zz", "2026-01-01T00:00:00Z",
    "9223372036854775808",
)  # fmt: skip
KEYS = (
    "plan", "text", "name", "role", "tenant", "password", "events", "stream", "timestamp", "origin", "delay", "plans",
)  # fmt: skip
PARAMETERS = (
    "tenant", "limit", "offset", "q", "state", "from", "to", "timestamp", "stream", "rows", "reason", "lines", "level",
    "window",
)  # fmt: skip
HEADERS = (
    "X-Cep-Tenant", "Accept", "If-None-Match", "Range", "Accept-Encoding", "Cookie", "Idempotency-Key", "Origin",
)  # fmt: skip
DEEP = ("(" * 500 + "1", "delay + " * 5_000 + "1 > 0", "not " * 3_000)
UNITS = (
    b"[", b'{"a":', b'"', b"\0", b"9", b"a=1&", b"a\n", PLAN.encode(), b"\xff", b"'", b"(", b"/*", b"--", b" ",
)  # fmt: skip
TYPES = (
    "application/json", "text/plain", "application/x-www-form-urlencoded", "application/x-ndjson", "text/csv", "",
    "multipart/form-data", "multipart/form-data; boundary=x", "application/vnd.apache.parquet",
    "application/octet-stream", "a/b; charset=nonsense",
)  # fmt: skip


CHARACTERS = "".join(random.Random(1).choices(string.printable + "éß\u2028\0", k=65_536))  # noqa: S311 - nothing secret


def characters(chance: random.Random, most: int) -> str:
    length = chance.randrange(most)
    begin = chance.randrange(len(CHARACTERS) - length)
    return CHARACTERS[begin : begin + length]


def word(chance: random.Random) -> str:
    return chance.choice((chance.choice(NAMES), chance.choice(NAMES), chance.choice(NASTY), characters(chance, 40)))


def value(chance: random.Random, depth: int = 0) -> Any:
    """Anything that JSON can say, and what it cannot."""
    kind = chance.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return word(chance)
    if kind == 1:
        return chance.choice((0, 1, -1, 2**31, 2**63, -(2**63) - 1, 10**300, 1e308, float("nan"), float("inf"), 0.1))
    if kind == 2:
        return chance.choice((None, True, False))
    if kind == 3:
        return characters(chance, chance.choice((5, 50, 5_000)))
    if kind == 4:
        return PLAN
    if kind == 5:
        return chance.choice(NAMES)
    if kind == 6:
        return [value(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {chance.choice((*KEYS, word(chance))): value(chance, depth + 1) for _ in range(chance.randrange(6))}


def plan_text(chance: random.Random) -> str:
    """A plan with parts repeated, left out and swapped."""
    words = PLAN.split(" ")
    for _ in range(chance.randrange(1, 8)):
        place = chance.randrange(len(words))
        words[place : place + chance.randrange(3)] = [chance.choice((word(chance), chance.choice(words)))]
    text = " ".join(words)
    if chance.random() < 0.05:
        text = text.replace("delay > 60", chance.choice(DEEP))
    return text * chance.choice((1, 1, 1, 40))


def large(chance: random.Random) -> bytes:
    """Up to the limit, and beyond it."""
    size = chance.choice((10_000, 100_000, BODY_BYTES - 1, BODY_BYTES + 1))
    unit = chance.choice(UNITS)
    return (unit * (size // len(unit) + 1))[:size]


def body_of(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.03:
        return large(chance)
    if kind < 0.25:
        return plan_text(chance).encode(errors="surrogatepass")
    if kind < 0.35:
        return chance.randbytes(chance.randrange(300))
    text = json.dumps(value(chance)).encode(errors="surrogatepass")
    return text[: chance.randrange(len(text) + 1)] if kind < 0.45 else text


def make_tokens(path: Path) -> list[str]:
    """Create one for each role of no tenant and of two; the last three are none."""
    file = TokenFile(path)
    made = [
        file.create(f"{role.value} {tenant}", role, tenant, 0)
        for role in AccessRole
        for tenant in (None, TENANT, OTHER)
    ]
    return [*made, "", "cep_" + "W" * 43, "\0"]


def calls(app: Flask) -> list[tuple[str, str]]:
    """Every method and address that is served, pages and Storm's API included."""
    found = [
        (method, rule.rule)
        for rule in app.url_map.iter_rules()
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"})
    ]
    return sorted(found)


def request_of(chance: random.Random, method: str, rule: str, token: str) -> dict[str, Any]:
    parts = rule.split("<")
    path = parts[0] + "".join(
        quote(word(chance), safe=chance.choice(("", "/")), errors="replace") + part.partition(">")[2]
        for part in parts[1:]
    )
    query = "&".join(
        f"{quote(chance.choice((*PARAMETERS, word(chance))), errors='replace')}={quote(word(chance), errors='replace')}"
        for _ in range(chance.choice((0, 0, 1, 1, 2, 5, 50)))
    )
    headers = {"Content-Type": chance.choice(TYPES)}
    if token:
        headers["Authorization"] = f"{'Bearer' if chance.random() < 0.95 else 'Basic'} {quote(token)}"
    if chance.random() < 0.3:
        headers[chance.choice(HEADERS)] = quote(word(chance), safe="/*,;= ", errors="replace")
    data = body_of(chance) if method != "GET" or chance.random() < 0.1 else None
    return {"method": method, "path": path, "query_string": query, "headers": headers, "data": data}


def token_of(chance: random.Random, tokens: list[str]) -> str:
    """Return one that is valid, most of the time."""
    return chance.choice(tokens if chance.random() < 0.3 else tokens[:-3])
