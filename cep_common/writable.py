"""Text that can be sent and stored. Pure."""

from __future__ import annotations


def writable(text: str) -> str:
    """`text` as UTF-8 can hold it: a lone surrogate, which in Python stands for what was no UTF-8 (in a file's name, as
    an example), becomes `\\udcff`. The same object where there is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text
