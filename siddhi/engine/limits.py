"""Limits on what an app may hold.

They have a module of their own, so that code which only configures engines need not load one.
"""

from __future__ import annotations

MAX_PARTIAL_MATCHES = 5_000_000
"""A pattern holds no more partial matches than this, some 2 GB of them, unless the app is told otherwise."""
