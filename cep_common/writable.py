"""Conversion of arbitrary text to text that can be stored and logged safely. Pure."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that end lines or control terminals, and lone surrogates."""


def writable(text: str) -> str:
    r"""Return `text` so that it can be encoded as UTF-8.

    A lone surrogate, which in Python represents a byte that was not UTF-8 (in a file name, for example), becomes text
    such as `\udcff`. Without surrogates the same object is returned.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def one_line(text: str) -> str:
    """Return `text` as one line of a log.

    Control characters and line ends are escaped, so that text from outside cannot start a line of its own. Tabs stay.
    """
    return _CONTROLS.sub(lambda one: one[0] if one[0] == "\t" else one[0].encode("unicode_escape").decode(), text)
