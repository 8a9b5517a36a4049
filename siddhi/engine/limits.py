"""Limits on the state of an app.

They have their own module, so that code which only configures engines does not load one.
"""

from __future__ import annotations

MAX_PARTIAL_MATCHES = 5_000_000
"""A pattern holds no more partial matches than this, some 2 GB of them, unless the configuration sets another limit."""
MAX_CASCADE_DEPTH = 10_000
"""Events. An event may cause another one, and so on, this many times before the cascade is considered endless."""
MAX_RESULT_CHARACTERS = 4 * 1024 * 1024
"""Characters of a text that a function returns. A row with a longer one would not fit into a message between stages."""
