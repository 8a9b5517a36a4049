"""`str:` functions."""

from __future__ import annotations

from siddhi.extensions.declaring import Check, Result, aggregator, function, stream_function
from siddhi.extensions.java_regex import PatternError, compile_pattern
from siddhi.language.ast import AttributeType
from siddhi.parameters import ANY, BOOL, INT, OBJECT, STRING, constant, takes, value
from siddhi.plugins.extension import Extension
from siddhi.registry import Arguments, CallError, Declaration, Overload

_TEXT = value("input.string", STRING)
_REGEX = value("regex", STRING, "a regular expression in Java's dialect")
_PRINTABLE = ANY - OBJECT
_ORDERS = ("ASC", "DESC")


def pattern_at(position: int) -> Check:
    """Return a rule that refuses a constant at `position` which is not a regular expression."""

    def check(arguments: Arguments) -> None:
        if position >= len(arguments):
            return
        text = arguments[position].value
        if isinstance(text, str) and arguments[position].type is AttributeType.STRING:
            try:
                compile_pattern(text)
            except PatternError as error:
                raise CallError(str(error), position) from error

    return check


def _one_type(arguments: Arguments) -> AttributeType:
    for position, argument in enumerate(arguments):
        if argument.type is not arguments[0].type:
            raise CallError("all arguments must have one type", position)
    return arguments[0].type


def _check_order(arguments: Arguments) -> None:
    if len(arguments) == 4 and str(arguments[3].value).upper() not in _ORDERS:
        raise CallError(f"the order must be {' or '.join(_ORDERS)}", 3)


def _str(
    name: str, summary: str, *overloads: Overload, result: Result = AttributeType.STRING, check: Check | None = None
) -> Declaration:
    return function("str", name, summary, result, *overloads, check=check)


_SEPARATOR = constant("separator", STRING, "the separator, ',' by default")
_DISTINCT = constant("distinct", BOOL, "true: every text once")

STR = Extension(
    "str",
    (
        _str("charAt", "the character at an index from 0", takes(value("input.value", STRING), value("index", INT))),
        _str(
            "charFrequency",
            "how often a text occurs in another",
            takes(_TEXT, value("char", STRING)),
            result=AttributeType.LONG,
        ),
        _str(
            "coalesce", "the first argument that is not null", takes(value("arg", ANY), repeats=True), result=_one_type
        ),
        _str(
            "concat",
            "all arguments as one text; nulls are left out",
            takes(value("arg", _PRINTABLE), value("arg", _PRINTABLE), repeats=True),
        ),
        _str(
            "contains",
            "true when the text contains another",
            takes(_TEXT, value("search.string", STRING)),
            result=AttributeType.BOOL,
        ),
        _str(
            "equalsIgnoreCase",
            "true when the texts are equal but for the case of letters",
            takes(value("arg1", STRING), value("arg2", STRING)),
            result=AttributeType.BOOL,
        ),
        _str(
            "fillTemplate",
            "the template with {{1}}, {{2}} … or {{key}} filled in",
            takes(value("template", STRING), value("replacement", _PRINTABLE), repeats=True),
            takes(value("template", STRING), value("map", OBJECT)),
        ),
        aggregator(
            "str",
            "groupConcat",
            "all values as one text",
            AttributeType.STRING,
            takes(value("key", STRING)),
            takes(value("key", STRING), _SEPARATOR),
            takes(value("key", STRING), _SEPARATOR, _DISTINCT),
            takes(value("key", STRING), _SEPARATOR, _DISTINCT, constant("order", STRING, " or ".join(_ORDERS))),
            check=_check_order,
        ),
        _str("hex", "the code of every character in base 16", takes(_TEXT)),
        _str("length", "how many characters the text has", takes(_TEXT), result=AttributeType.INT),
        _str(
            "locate",
            "the index of a text in another, from 0; -1 when it is not there",
            takes(value("string.to.search.for", STRING), value("string.to.search.in", STRING)),
            takes(
                value("string.to.search.for", STRING),
                value("string.to.search.in", STRING),
                value("searching.start.position", INT),
            ),
            result=AttributeType.INT,
        ),
        _str("lower", "the text in lower case", takes(_TEXT)),
        _str(
            "regexp",
            "true when the whole text matches",
            takes(_TEXT, _REGEX),
            result=AttributeType.BOOL,
            check=pattern_at(1),
        ),
        _str("repeat", "the text several times over", takes(_TEXT, value("times", INT))),
        _str(
            "replaceAll",
            "the text with every match replaced; $1 refers to a group",
            takes(_TEXT, _REGEX, value("replacement.string", STRING)),
            check=pattern_at(1),
        ),
        _str(
            "replaceFirst",
            "the text with the first match replaced; $1 refers to a group",
            takes(_TEXT, _REGEX, value("replacement.string", STRING)),
            check=pattern_at(1),
        ),
        _str("reverse", "the text from its end to its start", takes(_TEXT)),
        _str(
            "split",
            "the n-th part of the text, from 0, cut at each match",
            takes(_TEXT, value("split.string", STRING, "a regular expression"), value("group.number", INT)),
            check=pattern_at(1),
        ),
        _str(
            "strcmp",
            "negative, 0 or positive as the first text comes before, with or after the second",
            takes(value("arg1", STRING), value("arg2", STRING)),
            result=AttributeType.INT,
        ),
        _str(
            "substr",
            "part of the text: from an index, of a length, or what matches (a group of) a regular expression",
            takes(_TEXT, value("begin.index", INT)),
            takes(_TEXT, value("begin.index", INT), value("length", INT)),
            takes(_TEXT, _REGEX),
            takes(_TEXT, _REGEX, value("group.number", INT)),
            check=pattern_at(1),
        ),
        stream_function(
            "str",
            "tokenize",
            "one event for each part of a text, cut at each match",
            (("token", AttributeType.STRING),),
            takes(_TEXT, constant("regex", STRING, "a regular expression in Java's dialect")),
            takes(_TEXT, constant("regex", STRING), constant("distinct", BOOL, "true: every part once")),
            check=pattern_at(1),
            in_patterns=False,
        ),
        _str("trim", "the text without blanks at its ends", takes(_TEXT)),
        _str("unhex", "the text whose characters have these codes in base 16, two digits each", takes(_TEXT)),
        _str("upper", "the text in upper case", takes(_TEXT)),
    ),
    ("siddhi.extensions.str.functions", "siddhi.extensions.str.group_concat", "siddhi.extensions.str.tokenize"),
)
