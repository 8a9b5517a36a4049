"""Random queries: over one stream, joins, tables, named windows, aggregations, triggers, fault streams."""

from __future__ import annotations

from tools.differential.draw import Draw, optional
from tools.differential.expressions import Ref, comparison, condition, expression, of_type
from tools.differential.schema import INPUT, INPUTS, GeneratedApp, Schema, attributes, refs
from tools.differential.selections import outputs, selection
from tools.differential.windows import named_window, window

_LISTENED = 0.6
TABLE: Schema = (("k", "string"), ("i", "int"), ("p", "double"))


def insert(
    draw: Draw, app: GeneratedApp, body: str, schema: Schema, *, inside: bool = False, events: str | None = None
) -> str:
    """Return the query `body` with an output to a new stream, which further queries may read."""
    target = app.name("O")
    app.streams[target] = schema
    app.listened.append(target)
    annotation = ""
    if not inside and draw.chance(_LISTENED):
        name = app.name("q")
        app.queries.append(name)
        annotation = f"@info(name='{name}') "
    taken = outputs(draw) if events is None else events
    if "snapshot" in body and "expired" in taken:
        taken = ""
    return f"{annotation}{body} insert {optional(taken) if taken else ''}into {target};"


def source(draw: Draw, app: GeneratedApp, *, inputs: bool = False) -> tuple[str, Schema]:
    """Return a stream to read and what it has: mostly one of the inputs."""
    if not inputs and len(app.streams) > len(INPUTS) and draw.chance(0.35):
        name = draw.one([stream for stream in app.streams if stream not in INPUTS])
        return name, app.streams[name]
    return draw.one(INPUTS), INPUT


def single(draw: Draw, app: GeneratedApp, *, inside: bool = False, unique: bool = False) -> str:
    """Return a query over one stream: filters, a window or none, a selection."""
    stream, schema = source(draw, app)
    found = refs(schema)
    text = f"from {stream}{_filter(draw, found, 0.45)}"
    kind = "filter"
    if schema == INPUT and draw.chance(0.06):
        text += optional("#pol2Cart(p, p)")
    if draw.chance(0.6):
        spec = (
            window(draw, unique=unique)
            if schema == INPUT
            else f"{draw.one(['length', 'lengthBatch'])}({draw.one('123')})"
        )
        text += optional(f"#window.{spec}")
        kind = f"window.{spec.split('(')[0]}"
        if draw.chance(0.08):
            text += _filter(draw, found, 1.0)
    app.kinds.add(kind)
    chosen = selection(draw, found)
    return insert(draw, app, f"{text} {chosen.text}", chosen.schema, inside=inside)


def _filter(draw: Draw, found: list[Ref], share: float) -> str:
    return draw.maybe(share, f"[{condition(draw, found)}]")


def join(draw: Draw, app: GeneratedApp, *, inside: bool = False) -> str:
    """Return a join of two streams."""
    app.kinds.add("join")
    kind = draw.weighted([("join", 5), ("left outer join", 2), ("right outer join", 2), ("full outer join", 2)])
    sides = [draw.one(INPUTS) for _ in range(2)]
    left, right = (_side(draw, stream, alias) for stream, alias in zip(sides, "xy", strict=True))
    only = draw.weighted([(("", ""), 6), ((" unidirectional", ""), 1), (("", " unidirectional"), 1)])
    both = [*refs(INPUT, "x."), *refs(INPUT, "y.")]
    on = draw.one(["x.k == y.k", "x.k == y.k", "x.i == y.i", "x.i < y.i", "x.k == y.k and x.p > y.p"])
    if draw.chance(0.15):
        on = condition(draw, both)
    clause = optional(f" on {on}") if draw.chance(0.95) else ""
    chosen = selection(draw, both, aggregates=0.3, rates=0.08)
    body = f"from {left}{optional(only[0]) if only[0] else ''} {kind} {right}{only[1]}{clause} {chosen.text}"
    return insert(draw, app, body, chosen.schema, inside=inside)


def _side(draw: Draw, stream: str, alias: str) -> str:
    held = optional(f"#window.{window(draw, joined=True)}") if draw.chance(0.85) else ""
    return f"{stream}{_filter(draw, refs(INPUT), 0.25)}{held} as {alias}"


def table(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a table's definition, with queries that fill it, and perhaps change it and read it."""
    app.kinds.add("table")
    name = app.name("Tab")
    app.tables[name] = TABLE
    annotation = draw.weighted(
        [("", 3), ("@PrimaryKey('k') ", 3), ("@Index('i') ", 1), ("@PrimaryKey('k') @Index('i') ", 1)]
    )
    app.definitions.append(f"{annotation}define table {name} ({attributes(TABLE)});")
    queries = [_fill(draw, name)]
    queries += [optional(_change(draw, name)) for _ in range(draw.number(0, 2))]
    queries += [optional(_look_up(draw, app, name)) for _ in range(draw.number(1, 2))]
    if draw.chance(0.3):
        queries = draw.some(queries, len(queries), len(queries))
    return queries


def _fill(draw: Draw, name: str) -> str:
    stream = draw.one(INPUTS)
    text = f"from {stream}{_filter(draw, refs(INPUT), 0.3)}{_guard(draw, name)} select k, i, p"
    if draw.chance(0.4):
        return f"{text} update or insert into {name}{_set(draw, name)} on {name}.k == k;"
    return f"{text} insert into {name};"


def _guard(draw: Draw, name: str) -> str:
    """Return a look into the table that decides whether an event writes it."""
    test = f"({_on(draw, name)}) in {name}"
    return draw.maybe(0.25, f"[not ({test})]" if draw.chance(0.7) else f"[{test}]")


def _set(draw: Draw, name: str) -> str:
    values = ["i", "i + 1", f"{name}.i + i", f"{name}.i", "0"]
    more = ["", f", {name}.p = p", f", {name}.p = {name}.p + p"]
    return draw.maybe(0.6, f" set {name}.i = {draw.one(values)}{draw.one(more)}")


def _on(draw: Draw, name: str, event: str = "") -> str:
    tests = [
        f"{name}.k == {event}k",
        f"{name}.k == {event}k",
        f"{name}.i == {event}i",
        f"{name}.i > {event}i",
        f"{name}.k == {event}k and {name}.i < {event}i",
        f"{name}.k == 'a'",
        f"not ({name}.i == {event}i)",
        f"{name}.k == {event}k or {name}.p > {event}p",
    ]
    return draw.one(tests)


def _change(draw: Draw, name: str) -> str:
    text = f"from {draw.one(INPUTS)}{_filter(draw, refs(INPUT), 0.6)}{_guard(draw, name)} select k, i, p"
    match draw.number(0, 2):
        case 0:
            return f"{text} delete {name} on {_on(draw, name)};"
        case 1:
            return f"{text} update {name}{_set(draw, name)} on {_on(draw, name)};"
        case _:
            return f"{text} update or insert into {name}{_set(draw, name)} on {_on(draw, name)};"


def _look_up(draw: Draw, app: GeneratedApp, name: str) -> str:
    stream = draw.one(INPUTS)
    if draw.chance(0.35):
        test = f"[({_on(draw, name)}) in {name}]" if draw.chance(0.8) else f"[not (({_on(draw, name)}) in {name})]"
        chosen = selection(draw, refs(INPUT), aggregates=0.15)
        return insert(draw, app, f"from {stream}{test} {chosen.text}", chosen.schema)
    both = [*refs(INPUT, "x."), *refs(TABLE, "y.")]
    kind = draw.weighted([("join", 4), ("left outer join", 2)])
    held = draw.maybe(0.3, f"#window.{window(draw, joined=True)}")
    chosen = selection(draw, both, aggregates=0.25, rates=0.08)
    body = f"from {stream}{held} as x {kind} {name} as y on {_on(draw, 'y', 'x.')} {chosen.text}"
    return insert(draw, app, body, chosen.schema)


def named(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return a named window, what goes into it, and its readers."""
    app.kinds.add("named-window")
    name = app.name("Win")
    app.windows[name] = INPUT
    let_out = draw.weighted(
        [("", 3), (" output all events", 2), (" output expired events", 1), (" output current events", 1)]
    )
    app.definitions.append(
        f"define window {name} ({attributes(INPUT)}) {named_window(draw)}{optional(let_out) if let_out else ''};"
    )
    queries = [f"from {draw.one(INPUTS)}{_filter(draw, refs(INPUT), 0.3)} insert into {name};"]
    for _ in range(draw.number(1, 2)):
        if draw.chance(0.6):
            chosen = selection(draw, refs(INPUT), rates=0.08)
            query = insert(draw, app, f"from {name}{_filter(draw, refs(INPUT), 0.3)} {chosen.text}", chosen.schema)
        else:
            both = [*refs(INPUT, "x."), *refs(INPUT, "y.")]
            kind = draw.one(["join", "join", "left outer join", "right outer join"])
            chosen = selection(draw, both, aggregates=0.25, rates=0.05)
            held = draw.maybe(0.5, f"#window.{window(draw, joined=True)}")
            body = f"from {draw.one(INPUTS)}{held} as x {kind} {name} as y on x.k == y.k {chosen.text}"
            query = insert(draw, app, body, chosen.schema)
        queries.append(optional(query))
    return queries


def aggregation(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return nothing to run: an incremental aggregation, which questions and perhaps a join read."""
    app.kinds.add("aggregation")
    name = app.name("Agg")
    values = ["sum(i) as si", "avg(p) as ap", "count() as n", "min(l) as ml", "max(p) as mp", "distinctCount(b) as db"]
    chosen = draw.some(values[:5], 1, 3)
    read = f"from {draw.one(INPUTS)}{_filter(draw, refs(INPUT), 0.1)} select k, {', '.join(chosen)}"
    by = f"{draw.maybe(0.8, ' group by k')} aggregate{draw.maybe(0.6, ' by t')}"
    app.definitions.append(f"define aggregation {name} {read}{by} every sec ... {draw.one(['min', 'hour', 'year'])};")
    app.aggregations[name] = chosen[0].split(" as ")[1]
    if not draw.chance(0.4):
        return []
    value = app.aggregations[name]
    until = draw.one(["5000L", "3000L", "100000L"])
    body = (
        f"from {draw.one(INPUTS)} as x join {name} as y on x.k == y.k within 0L, {until} "
        f"per '{draw.one(['sec', 'min'])}' select x.k as o0, y.{value} as o1"
    )
    type_ = {"si": "long", "ap": "double", "n": "long", "ml": "long", "mp": "double"}[value]
    return [insert(draw, app, body, (("o0", "string"), ("o1", type_)), events="")]


def trigger(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return queries that read a trigger."""
    app.kinds.add("trigger")
    name = app.name("Tick")
    when = draw.weighted([("at 'start'", 1), ("at every 500 milliseconds", 2), ("at every 1 sec", 1)])
    app.definitions.append(f"define trigger {name} {when};")
    if draw.chance(0.5):
        return [insert(draw, app, f"from {name} select triggered_time as o0", (("o0", "long"),))]
    body = f"from {name} join {draw.one(INPUTS)}#window.{window(draw, joined=True)} as y select y.k as o0, y.i as o1"
    return [insert(draw, app, body, (("o0", "string"), ("o1", "int")))]


def failing(draw: Draw, app: GeneratedApp) -> list[str]:
    """Return queries of which some fail at some events, with a reader of the fault stream."""
    app.kinds.add("failing")
    app.failing = True
    stream = app.name("E")
    schema: Schema = (("k", "string"), ("i", "int"), ("b", "bool"))
    action = draw.weighted([("@OnError(action='STREAM') ", 3), ("", 1)])
    app.definitions.append(f"{action}define stream {stream} ({attributes(schema)});")
    app.streams[stream] = schema
    failure = draw.one(["math:parseInt(k)", "and(b)", "or(b)"])
    type_ = "int" if "parse" in failure else "bool"
    held = draw.maybe(0.4, f"#window.{draw.one(['length(2)', 'lengthBatch(2)', 'time(200)'])}")
    queries = [
        f"from {draw.one(INPUTS)}{_filter(draw, refs(INPUT), 0.3)} select k, i, b insert into {stream};",
        insert(draw, app, f"from {stream}{held} select k as o0, {failure} as o1", (("o0", "string"), ("o1", type_))),
    ]
    if draw.chance(0.5):
        queries.append(
            optional(insert(draw, app, f"from {stream} select k as o0, i as o1", (("o0", "string"), ("o1", "int"))))
        )
    if action:
        queries.append(insert(draw, app, f"from !{stream} select k as o0, i as o1", (("o0", "string"), ("o1", "int"))))
    return queries


def inner_chain(draw: Draw, app: GeneratedApp, number: int) -> list[str]:
    """Return two queries of a partition, of which the second one reads what the first gives to an inner stream."""
    stream = draw.one(INPUTS[:2])
    first = selection(draw, refs(INPUT), rates=0.05)
    held = draw.maybe(0.6, f"#window.{window(draw, joined=True)}")
    taken = outputs(draw)
    if "snapshot" in first.text and "expired" in taken:
        taken = ""
    inner = f"#I{number}"
    chain = f"from {stream}{_filter(draw, refs(INPUT), 0.3)}{held} {first.text} insert {taken}into {inner};"
    found = refs(first.schema)
    second = selection(draw, found, rates=0.05)
    held = draw.maybe(0.4, f"#window.{draw.one(['length(2)', 'lengthBatch(2)', 'time(200)', 'timeBatch(200)'])}")
    return [
        chain,
        insert(draw, app, f"from {inner}{_filter(draw, found, 0.3)}{held} {second.text}", second.schema, inside=True),
    ]


def filtered(draw: Draw, app: GeneratedApp) -> str:
    """Return a query without a window, over any stream."""
    stream, schema = source(draw, app)
    found = refs(schema)
    app.kinds.add("filter")
    numbers = of_type(found, "int", "long", "double", "float")
    test = comparison(draw, numbers or found, 1) if draw.chance(0.5) else condition(draw, found, 2)
    type_ = draw.one(["int", "long", "double", "float", "bool", "string"])
    body = f"from {stream}{optional(f'[{test}]')} select {expression(draw, found, type_, 3)} as o0"
    return insert(draw, app, body, (("o0", type_),))
