"""Limits on the state of an app.

They have their own module, so that code which only configures engines does not load one.
"""

from __future__ import annotations

MAX_PARTIAL_MATCHES = 5_000_000
"""The maximum number of partial matches of a pattern (about 2 GB) unless the configuration sets another limit."""
MAX_CASCADE_DEPTH = 10_000
"""The maximum length of a cascade, in which one event causes the next, before it is considered endless."""
MAX_RESULT_CHARACTERS = 4 * 1024 * 1024
"""The maximum number of characters of a function's result. Longer texts do not fit into messages between stages."""
