"""Imports that libraries put off until their first use, done before there are requests that would wait for them."""

from __future__ import annotations

import pyarrow as pa


def load_lazy_imports() -> None:
    """Import what converting events needs.

    pyarrow imports pandas, if that is installed, with the first list that it converts. This takes half a second or
    more, in which the thread of the HTTP server would not answer.
    """
    pa.array([], pa.int64())
