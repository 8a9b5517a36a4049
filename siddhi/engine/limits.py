"""Limits on what an app may hold.

They have a module of their own, so that code which only configures engines need not load one.
"""

from __future__ import annotations

MAX_PARTIAL_MATCHES = 5_000_000
"""A pattern holds no more partial matches than this, some 2 GB of them, unless the configuration sets another limit."""
MAX_CASCADE_DEPTH = 10_000
"""Events. One event may cause another, which causes another, and so on, this many times before it counts as endless."""
MAX_RESULT_CHARACTERS = 4 * 1024 * 1024
"""Characters of a text that a function returns. A row with a longer one would not fit into a message between stages."""
