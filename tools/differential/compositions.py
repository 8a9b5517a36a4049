"""Random queries that combine kinds: any stream in patterns and partitions, whole events, tables on any side, sets."""

from __future__ import annotations

from tools.differential.draw import Draw, optional
from tools.differential.expressions import Ref, condition, constant_comparison, of_type
from tools.differential.queries import TABLE, insert, source
from tools.differential.schema import INPUT, INPUTS, GeneratedApp, attributes, refs
from tools.differential.selections import outputs, selection
from tools.differential.windows import window


def whole_events(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a query that selects `*`, or nothing, with functions of the event."""
    app.kinds.add("whole-events")
    stream = draw.one(INPUTS)
    held = draw.maybe(0.5, f"#window.{window(draw)}")
    test = draw.maybe(0.4, f"[{condition(draw, refs(INPUT))}]")
    if draw.chance(0.5):
        return [insert(draw, app, f"from {stream}{test}{held}{draw.one([' select *', ''])}", INPUT)]
    of_event = [
        ("eventTimestamp()", "long"),
        ("instanceOfString(k)", "bool"),
        ("instanceOfInteger(i)", "bool"),
        ("instanceOfDouble(p)", "bool"),
        ("cast(i, 'int')", "int"),
        ("cast(k, 'string')", "string"),
        ("convert(f, 'double')", "double"),
    ]
    chosen = draw.some(of_event, 1, 3)
    items = ", ".join(f"{text} as o{place}" for place, (text, _) in enumerate(chosen))
    schema = tuple((f"o{place}", type_) for place, (_, type_) in enumerate(chosen))
    return [insert(draw, app, f"from {stream}{test}{held} select {items}", schema)]


def sets(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return queries that make sets of events and count what is in their union."""
    app.kinds.add("sets")
    name = app.name("Sets")
    by = draw.one(["k", "i", "l"])
    held = draw.maybe(0.7, f"#window.{draw.one(['length(2)', 'lengthBatch(3)', 'time(200)', 'timeBatch(300)'])}")
    read = f"from {name}{held} select k as o0, sizeOfSet(unionSet(s)) as o1{draw.maybe(0.4, ' group by k')}"
    return [
        f"from {draw.one(INPUTS)} select k, createSet({by}) as s insert into {name};",
        insert(draw, app, read, (("o0", "string"), ("o1", "int"))),
    ]


def table_sides(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a table that is the first side of joins, or joined with a named window, or asked about matches."""
    app.kinds.add("table-sides")
    name = app.name("Tab")
    app.tables[name] = TABLE
    key = draw.weighted([("", 2), ("@PrimaryKey('k') ", 2), ("@Index('k') ", 1)])
    app.definitions.append(f"{key}define table {name} ({attributes(TABLE)});")
    write = draw.one(["insert into {}", "update or insert into {0} on {0}.k == k"]).format(name)
    queries = [f"from {draw.one(INPUTS)} select k, i, p {write};"]
    both = [*refs(TABLE, "y."), *refs(INPUT, "x.")]
    for _ in range(draw.number(1, 2)):
        on = draw.one(["x.k == y.k", "y.k == x.k and y.i < x.i", "x.i >= y.i", "x.k == y.k and x.p != y.p"])
        match draw.number(0, 2):
            case 0:
                held = draw.maybe(0.5, f"#window.{window(draw, joined=True)}")
                kind = draw.one(["join", "right outer join"])
                chosen = selection(draw, both, aggregates=0.25, rates=0.05)
                body = f"from {name} as y {kind} {draw.one(INPUTS)}{held} as x on {on} {chosen.text}"
                queries.append(insert(draw, app, body, chosen.schema))
            case 1:
                win = app.name("Win")
                app.windows[win] = INPUT
                app.definitions.append(
                    f"define window {win} ({attributes(INPUT)}) {draw.one(['length(2)', 'time(300)'])};"
                )
                queries.append(f"from {draw.one(INPUTS)} insert into {win};")
                chosen = selection(draw, both, aggregates=0.25, rates=0.05)
                body = f"from {win} as x join {name} as y on {on} {chosen.text}"
                queries.append(insert(draw, app, body, chosen.schema))
            case _:
                test = draw.one([f"{name}.k == o0", f"{name}.i > o1", f"{name}.k == o0 and {name}.p < o2"])
                matches, schema = app.name("M"), (("o0", "string"), ("o1", "int"), ("o2", "double"))
                link = draw.one([" -> ", ", "])
                pattern = f"every e1={draw.one(INPUTS)}{link}e2={draw.one(INPUTS)}{optional('[e1.k == k]')}"
                chosen = selection(draw, refs(schema), aggregates=0.3)
                body = f"from {matches}[{draw.one(['', 'not '])}(({test}) in {name})] {chosen.text}"
                queries.append(
                    f"from {pattern} select e1.k as o0, e2.i as o1, e2.p as o2 insert into {matches}; "
                    + insert(draw, app, body, chosen.schema)
                )
    return [queries[0], *map(optional, queries[1:])]


def behind(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a query with another one behind it: a pattern, a partition, or a join over what the first gives."""
    app.kinds.add("behind")
    first, schema = source(draw, app)
    known = [name for name in app.streams if name not in INPUTS]
    if not known or schema == INPUT:
        held = draw.maybe(0.4, f"#window.{window(draw)}")
        name = app.name("B")
        body = f"from {draw.one(INPUTS)}{held} select k as o0, i as o1, p as o2 insert {outputs(draw)}into {name};"
        first, schema = name, (("o0", "string"), ("o1", "int"), ("o2", "double"))
        app.streams[name] = schema
        made = [body]
    else:
        made = []
    found = refs(schema)
    other = draw.one(INPUTS)
    match draw.number(0, 2):
        case 0:
            test = draw.maybe(0.5, f"[{_test(draw, found)}]")
            end = draw.one(
                [f"e2={other}[i > 1]", f"not {other} for 200 milliseconds", f"e2={first}", f"e2={other}<1:2>"]
            )
            link = draw.one([" -> ", " -> ", ", "])
            chosen = selection(draw, refs(schema, "e1."), aggregates=0.2, rates=0.05)
            body = f"from every e1={first}{test}{link}{end}{draw.maybe(0.3, ' within 500 milliseconds')} {chosen.text}"
            return [*made, insert(draw, app, body, chosen.schema)]
        case 1:
            keys = of_type(found, "string", "int", "bool") or found
            key = draw.one(keys).text
            held = draw.maybe(
                0.5, f"#window.{draw.one(['length(2)', 'lengthBatch(2)', 'time(300)', 'timeBatch(300)'])}"
            )
            chosen = selection(draw, found)
            inner = insert(draw, app, f"from {first}{held} {chosen.text}", chosen.schema, inside=True)
            return [*made, f"partition with ({key} of {first}) begin {inner} end;"]
        case _:
            held = draw.one(["length(2)", "time(300)", "lengthBatch(2)", "timeBatch(300)"])
            both = [*refs(schema, "x."), *refs(INPUT, "y.")]
            on = draw.one(["x.o0 is null or y.i > 1", "y.i < 4", "not (y.k == 'a')"])
            chosen = selection(draw, both, aggregates=0.25, rates=0.05)
            body = f"from {first}#window.{held} as x {draw.one(['join', 'left outer join'])} "
            body += f"{other}#window.{window(draw, joined=True)} as y on {on} {chosen.text}"
            return [*made, insert(draw, app, body, chosen.schema)]


def _test(draw: Draw, found: list[Ref]) -> str:
    return constant_comparison(draw, draw.one(found))
