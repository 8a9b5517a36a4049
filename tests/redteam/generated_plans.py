"""Plans of any size, each with very many of one thing: what a plan may hold in any number must cost a bounded time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

HEAD = "@Plan:name('P')\n"
S = f"{HEAD}define stream S (a int, b string, c double);\n"
T0 = S.replace(" S ", " T0 ")
END = "from S select a insert into O;"

Shape = Callable[[int], str]


def many(before: str, each: Callable[[int], str], behind: str = "", between: str = "") -> Shape:
    """A plan of about so many characters, with as many of `each` as fit."""

    def text(size: int) -> str:
        parts: list[str] = []
        length = len(before) + len(behind)
        for number in itertools.count():
            if length >= size:
                return f"{before}{between.join(parts)}{behind}"
            parts.append(each(number))
            length += len(parts[-1]) + len(between)
        raise AssertionError

    return text


def nested(before: str, opening: str, inner: str, closing: str, behind: str) -> Shape:
    """A plan of about so many characters, with `opening` and `closing` as often as they fit."""

    def text(size: int) -> str:
        levels = max(1, size // (len(opening) + len(closing)))
        return f"{before}{opening * levels}{inner}{closing * levels}{behind}"

    return text


def reversed_chain(size: int) -> str:
    """Stages of which each feeds the one that stands before it."""
    stages = size // 115 + 1
    streams = "".join(f"define stream T{i} (a int, b string, c double);" for i in range(1, stages + 1))
    queries = (f"@dist(execGroup='g{i}') from T{i} select * insert into T{i + 1};\n" for i in range(stages))
    return T0 + streams + "".join(reversed(list(queries)))


def circle(size: int) -> str:
    """Stages that feed each other in one circle."""
    stages = size // 115 + 2
    streams = "".join(f"define stream T{i} (a int, b string, c double);" for i in range(1, stages))
    queries = (f"@dist(execGroup='g{i}') from T{i} select * insert into T{(i + 1) % stages};\n" for i in range(stages))
    return T0 + streams + "".join(queries)


def same_origin(size: int) -> str:
    """A stage with state that reads many streams, all of one origin and on one way."""
    streams = size // 150 + 1
    return (
        S
        + "".join(f"@dist(execGroup='a') from S select * insert into A{i};" for i in range(streams))
        + "".join(f"@dist(execGroup='z') from A{i}#window.length(1) select a insert into Z;" for i in range(streams))
    )


def split_diamond(size: int) -> str:
    """Two queries for each stream of a chain, so that the ways through it double with each."""
    query = "@dist(execGroup='a') from T{i}[a {sign} 1] select * insert into T{next};"
    each = many(T0, lambda i: "".join(query.format(i=i, next=i + 1, sign=sign) for sign in "<>"))
    return each(size) + "@dist(execGroup='b') from T1 select a order by a insert into Z;"


SHAPES: dict[str, Shape] = {
    "queries": many(S, lambda i: f"from S[a > {i}] select a, b insert into O{i};\n"),
    "a chain of queries": many(T0, lambda i: f"from T{i} select * insert into T{i + 1};\n"),
    "a chain of stages": many(T0, lambda i: f"@dist(execGroup='g{i}') from T{i} select * insert into T{i + 1};\n"),
    "a reversed chain of stages": reversed_chain,
    "a circle of stages": circle,
    "streams of one origin": same_origin,
    "a diamond in one stage": split_diamond,
    "parallel stages": many(S, lambda i: f"@dist(execGroup='g{i}', parallel='2') from S select a insert into O{i};\n"),
    "users of one table": many(
        f"{S}define table T (a int);", lambda _: "@dist(parallel='1') from S select a insert into T;"
    ),
    "updates": many(f"{S}define table T (a int);", lambda _: "from S update T set T.a = a on T.a == a;"),
    "a chain of and": many(f"{S}from S[", lambda i: f"a > {i}", "] select a insert into O;", " and "),
    "grouped conditions": many(
        f"{S}from S[", lambda _: f"({' and '.join(['a > 1'] * 100)})", "] select a insert into O;", " or "
    ),
    "parentheses": nested(f"{S}from S[", "(", "a > 1", ")", "] select a insert into O;"),
    "negations": nested(f"{S}from S[", "not ", "(a > 1)", "", "] select a insert into O;"),
    "nested calls": nested(f"{S}from S[", "f(", "1", ")", "] select a insert into O;"),
    "nested queries": nested(f"{S}from ", "(from ", "S", " select * return)", " select * insert into O;"),
    "nested patterns": nested(f"{S}from ", "(", "e=S", ")", " select e.a insert into O;"),
    "nested annotations": nested(HEAD, "@a(", "b='c'", ")", "define stream S (a int);"),
    "nested blocks of a script": nested(
        f"{S}define function f[javascript] return int ", "{", "return 1;", "}", f";{END}"
    ),
    "arguments": many(f"{S}from S select coalesce(", lambda _: "a", ") as x insert into O;", ", "),
    "streams": many(HEAD, lambda i: f"define stream S{i} (a int, b string);\n", "from S0 select * insert into O;"),
    "attributes": many(f"{HEAD}define stream S (", lambda i: f"a{i} int", "); from S select * insert into O;", ", "),
    "outputs": many(f"{S}from S select ", lambda i: f"a as a{i}", " insert into O;", ", "),
    "aggregates": many(f"{S}from S#window.length(5) select ", lambda i: f"sum(a) as s{i}", " insert into O;", ", "),
    "groups": many(
        f"{S}from S#window.length(5) select a, sum(a) as s group by ", lambda _: "a", " insert into O;", ","
    ),
    "annotations": many(S, lambda _: "@info(name='x')", END),
    "options": many(f"{S}@sink(type='log',", lambda i: f"x{i}='y'", f")define stream O (a int); {END}", ","),
    "sinks": many(S, lambda i: f"@sink(type='log') define stream O{i} (a int);", END),
    "partitions": many(
        S, lambda i: f"partition with (a of S) begin from S select sum(a) as s insert into O{i}; end;\n"
    ),
    "queries of a partition": many(
        f"{S}partition with (a of S) begin ", lambda i: f"from S select sum(a) as s insert into #O{i};\n", "end"
    ),
    "ranges": many(
        f"{S}partition with (",
        lambda i: f"a > {i} as 'r{i}'",
        " of S) begin from S select * insert into O; end",
        " or ",
    ),
    "events of a pattern": many(
        f"{S}from ", lambda i: f"e{i}=S[a > e0.a]" if i else "e0=S", " select e0.a insert into O;", " -> "
    ),
    "filters": many(f"{S}from S", lambda i: f"[a > {i}]", " select a insert into O;"),
    "joins": many(
        S,
        lambda i: (
            f"from S#window.length(1) as x join S#window.length(1) as y on x.a == y.a select x.a insert into J{i};"
        ),
    ),
    "triggers": many(S, lambda i: f"define trigger T{i} at every 1 sec;", END),
    "scripts": many(S, lambda i: f"define function f{i}[javascript] return int {{ return 1; }};\n", END),
    "aggregations": many(
        S, lambda i: f"define aggregation A{i} from S select a, sum(a) as s group by a aggregate every sec...year;", END
    ),
    "windows": many(S, lambda i: f"define window W{i} (a int) length(5);", END),
    "unknown streams": many(S, lambda i: f"from Unknown{i}[a > {i}] select a insert into O{i};\n"),
    "unknown attributes": many(f"{S}from S select ", lambda i: f"z{i} as a{i}", " insert into O;", ", "),
    "unknown functions": many(f"{S}from S select ", lambda i: f"ff{i}(a) as a{i}", " insert into O;", ", "),
    "a long text": nested(f"{S}from S[b == '", "x", "", "", "'] select a insert into O;"),
    "a long name": nested(f"{S}from S", "x", "", "", " select a insert into O;"),
    "a long number": nested(f"{S}from S[a > ", "9", "", "", "] select a insert into O;"),
    "a long fraction": nested(f"{S}from S[c > ", "9", ".", "9", "f] select a insert into O;"),
    "a long exponent": nested(f"{S}from S[c > ", "9", "e", "9", "] select a insert into O;"),
    "a long time": nested(f"{S}from S#window.time(", "9", " sec", "", ") select a insert into O;"),
    "a long count": nested(f"{S}from e=S<", "9", "", "", "> select e.a insert into O;"),
    "a long index": nested(f"{S}from e=S<2> select e[", "9", "", "", "].a insert into O;"),
    "a long rate": nested(f"{S}from S select a output every ", "9", "", "", " events insert into O;"),
    "long numbers": many(f"{S}from S[", lambda _: f"a > {'9' * 65}", "] select a insert into O;", " and "),
    "units": many(f"{S}from S#window.time(", lambda _: "1 sec ", ") select a insert into O;"),
    "comments": many(S, lambda _: "/*x*/", END),
    "open comments": nested("x ", "/* ", "", "", ""),
    "open comments of a script": nested(
        f"{S}define function f[javascript] return int {{", "/* ", "", "", "}; from S x"
    ),
    "braces in an open comment of a script": nested(
        f"{S}define function f[javascript] return int {{ /* ", "{}", "", "", "}; from S x"
    ),
    "words in quotes of a script": nested(
        f"{S}define function f[javascript] return int {{ '", "x ", "", "", "'}; from S x"
    ),
    "beginnings of definitions": nested("", "define ", "", "", ""),
    "beginnings of annotations": nested("", "@a ", "", "", ""),
    "statements without an end": nested("", "define stream S (a int) ", "", "", ""),
    "closing brackets": nested(S, ")", "", "", ""),
    "opening braces": nested(S, "{", "", "", ""),
    "quotes": nested(S, "' ", "", "", ""),
    "zeros": nested(S, "\0", "", "", ""),
    "words of queries": nested(S, "select ", "", "", ";"),
}
