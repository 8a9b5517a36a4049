"""The four kinds of rows that travel through an app, as the int8 of a batch's `_kind` column."""

from __future__ import annotations

CURRENT = 0
EXPIRED = 1
TIMER = 2
RESET = 3
