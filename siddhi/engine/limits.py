"""What an app may hold. In a module of its own: whoever only configures engines need not load one."""

from __future__ import annotations

MAX_PARTIAL_MATCHES = 5_000_000
"""A pattern holds no more partial matches than this, some 2 GB of them, unless the app is told otherwise."""
