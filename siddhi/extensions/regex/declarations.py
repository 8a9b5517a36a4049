"""`regex:` functions."""

from __future__ import annotations

from siddhi.extensions.declaring import function
from siddhi.extensions.str.declarations import pattern_at
from siddhi.language.ast import AttributeType
from siddhi.parameters import INT, STRING, takes, value
from siddhi.plugins.extension import Extension

_BOTH = (
    value("regex", STRING, "a regular expression in Java's dialect"),
    value("input.sequence", STRING),
)
_PLAIN = takes(*_BOTH)

REGEX = Extension(
    "regex",
    (
        function(
            "regex",
            "find",
            "true when part of the text matches, from an index on if one is given",
            AttributeType.BOOL,
            _PLAIN,
            takes(*_BOTH, value("starting.index", INT)),
            check=pattern_at(0),
        ),
        function(
            "regex",
            "group",
            "the group of the first match; null without a match or such a group",
            AttributeType.STRING,
            takes(*_BOTH, value("group.id", INT)),
            check=pattern_at(0),
        ),
        function(
            "regex",
            "lookingAt",
            "true when the start of the text matches",
            AttributeType.BOOL,
            _PLAIN,
            check=pattern_at(0),
        ),
        function(
            "regex", "matches", "true when the whole text matches", AttributeType.BOOL, _PLAIN, check=pattern_at(0)
        ),
    ),
    ("siddhi.extensions.regex.functions",),
)
