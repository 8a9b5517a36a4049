"""Text that can be sent and stored. Pure."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Characters that end lines or steer terminals, and those that cannot be sent to one."""


def writable(text: str) -> str:
    r"""Return `text` as UTF-8 can hold it.

    A lone surrogate, which in Python represents bytes that were no UTF-8 (in a file's name, for example), becomes
    `\udcff`. The result is the same object where there is none.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def one_line(text: str) -> str:
    """Return `text` as one line of a log.

    Control characters and line ends are shown instead of obeyed, so that nothing from outside begins a line of its
    own. A tab stays.
    """
    return _CONTROLS.sub(lambda one: one[0] if one[0] == "\t" else one[0].encode("unicode_escape").decode(), text)
