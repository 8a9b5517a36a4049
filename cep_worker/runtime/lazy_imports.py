"""Imports that libraries defer until their first use, done before requests would wait for them."""

from __future__ import annotations

import pyarrow as pa


def load_lazy_imports() -> None:
    """Import the modules that converting events needs.

    pyarrow imports pandas, if that is installed, with the first list that it converts. This takes half a second or
    more, in which the thread of the HTTP server would not answer.
    """
    pa.array([], pa.int64())
