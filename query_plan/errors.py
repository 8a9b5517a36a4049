"""Errors of the planner: a `SiddhiError` like those of the language, so that one handler shows them all.

SiddhiError
└── QueryPlanError          `problems`: what is wrong, where, and what to do
    └── QueryPlanXmlError   positions are in the XML text
"""

from __future__ import annotations

from siddhi.errors import SiddhiError


class QueryPlanError(SiddhiError):
    """A plan that cannot be distributed as it is written."""


class QueryPlanXmlError(QueryPlanError):
    """A text that is not a query plan, or a query plan that cannot be written."""
