"""A kind for every function and aggregator that an app can call, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.peers.kinds import HEAD, QueryKind
from siddhi.analysis.catalogue import builtin_registry
from siddhi.language.ast import AttributeType
from siddhi.registry import Declaration, Kind, Parameter

_DATE = "time:dateFormat(ts, 'yyyy-MM-dd HH:mm:ss')"
_JSON = 'str:concat("""{"a": """, volume, """, "b": {"c": 1}}""")'
_BY_NAME = {
    "to": "'string'", "path": "'$.a'", "index": "1", "times": "2", "group.number": "0", "group.id": "0",
    "from.base": "16", "to.base": "2", "regex": "'S([0-9])'", "char": "'S'", "replacement.string": "'x'",
    "split.string": "'1'", "begin.index": "1", "date.value": _DATE, "date.value2": _DATE, "unit": "'DAY'", "expr": "2",
    "date.source.format": "'yyyy-MM-dd HH:mm:ss'", "date.target.format": "'yyyy/MM/dd'", "p": "95.0",
    "target.timezone": "'Asia/Seoul'", "template": "'{{1}} and {{1}}'", "json": _JSON, "json.element": "'x'",
    "condition": "price > 50.0", "key": "symbol", "expression": "'1 + 2'", "return.type": "'int'",
    "json.string": _JSON, "xml.string": "str:concat('<m><a>', symbol, '</a></m>')",
}  # fmt: skip
"""Arguments of parameters that take more than any value of their type."""
_OBJECTS = {
    "map": "map:create('a', symbol, 'b', price)",
    "list": "list:create(symbol, price, volume)",
    "": "createSet(symbol)",
}
"""Objects by the namespace of what takes them."""
_BY_TYPE = {
    AttributeType.DOUBLE: "price",
    AttributeType.STRING: "symbol",
    AttributeType.LONG: "volume",
    AttributeType.INT: "3",
    AttributeType.BOOL: "price > 50.0",
}
_CALLS = {
    "math:conv": "math:conv('1f', 16, 2)",
    "math:hex": "math:hex(volume)",
    **{f"math:parse{name}": f"math:parse{name}('12')" for name in ("Double", "Float", "Int", "Long")},
    "str:unhex": "str:unhex('53')",
    "str:groupConcat": "str:groupConcat(symbol)",
    "coalesce": "coalesce(symbol, 'x')",
    "default": "default(price, 1.0)",
    "ifThenElse": "ifThenElse(price > 50.0, price, 1.0)",
    "json:groupAsObject": f"json:groupAsObject({_JSON})",
    "json:getBool": 'json:getBool("""{"a": true}""", "$.a")',
    "json:getString": f"json:getString({_JSON}, '$.b.c')",
    "json:getObject": f"json:getObject({_JSON}, '$.b')",
    "time:dateAdd": "time:dateAdd(ts, 2, 'DAY')",
    "time:dateSub": "time:dateSub(ts, 2, 'DAY')",
    "time:extract": "time:extract(ts, 'HOUR')",
}
"""Calls of what declarations do not say enough about."""


def calls() -> Iterator[QueryKind]:
    """Yield a kind for each function, and for each aggregator over a window of 100 events."""
    for declaration in builtin_registry():
        if declaration.kind not in (Kind.FUNCTION, Kind.AGGREGATOR) or declaration.script_language:
            continue
        aggregates = declaration.kind is Kind.AGGREGATOR
        window = "#window.length(100)" if aggregates else ""
        query = f"from S{window} select symbol, {_call(declaration)} as r insert into Out;"
        name = declaration.full_name.replace(":", "_")
        yield QueryKind(name, "aggregators" if aggregates else "functions", HEAD + query)


def _call(declaration: Declaration) -> str:
    if declaration.full_name in _CALLS:
        return _CALLS[declaration.full_name]
    overload = declaration.overloads_of(dialect_3x=False)[0]
    arguments = (_argument(declaration.namespace, parameter) for parameter in overload.parameters)
    return f"{declaration.full_name}({', '.join(arguments)})"


def _argument(namespace: str, parameter: Parameter) -> str:
    if parameter.types == {AttributeType.OBJECT}:
        return _OBJECTS[namespace]
    if parameter.name in _BY_NAME:
        return _BY_NAME[parameter.name]
    return next(text for type_, text in _BY_TYPE.items() if type_ in parameter.types)
