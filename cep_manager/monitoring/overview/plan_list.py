"""Selects the plans of a list by search, filters and pages, before anything costly is computed for a plan. Pure."""

from __future__ import annotations

import msgspec

from cep_common.ids import PlanKey
from cep_manager.control.snapshot import ClusterSnapshot
from cep_manager.monitoring.status import plan_state
from cep_manager.plans.rule_sets.origin import parse_rule_origin
from cep_manager.plans.state import PlanState

NOT_AT_WORK = (PlanState.INACTIVE, PlanState.WAITING, PlanState.FAILED, PlanState.KILLED)


class PlanFilter(msgspec.Struct, frozen=True):
    """Selects plans by words, state and rule set; empty: any.

    All words of `q` must occur in a plan's name, description, state or rule set.
    """

    q: str = ""
    state: str = ""
    rule_set: str = ""


class PlanEntry(msgspec.Struct, frozen=True):
    """A plan that a list may show, and the text it is searched in."""

    key: PlanKey
    state: PlanState
    rule_set: str
    words: str


class PlanPage(msgspec.Struct, frozen=True):
    """The part of a list that is shown: plans at work first, then the others, each by name.

    `total` plans match, of `known` that there are; `states` and `rule_sets` are what can be chosen. `first` is the
    number of the first one shown, from 0.
    """

    entries: tuple[PlanEntry, ...]
    first: int
    total: int
    known: int
    active: int
    states: tuple[str, ...]
    rule_sets: tuple[str, ...]


def matching(snapshot: ClusterSnapshot, tenant: int, wanted: PlanFilter) -> tuple[PlanEntry, ...]:
    """Return all plans of the tenant that match, those at work first."""
    return _matching(plan_entries(snapshot, tenant), wanted)


def plan_page(snapshot: ClusterSnapshot, tenant: int, wanted: PlanFilter, first: int, most: int) -> PlanPage:
    """Return at most `most` of the tenant's matching plans, from number `first` on.

    Returns the last ones if there are fewer.
    """
    known = plan_entries(snapshot, tenant)
    found = _matching(known, wanted)
    first = min(first, max(0, (len(found) - 1) // most * most))
    return PlanPage(
        entries=found[first : first + most],
        first=first,
        total=len(found),
        known=len(known),
        active=sum(one.state not in NOT_AT_WORK for one in known),
        states=tuple(sorted({one.state.value for one in known})),
        rule_sets=tuple(sorted({one.rule_set for one in known if one.rule_set})),
    )


def plan_entries(snapshot: ClusterSnapshot, tenant: int) -> tuple[PlanEntry, ...]:
    """Return all plans of the tenant, those at work first, each by name."""
    entries = []
    for record in snapshot.plans.values():
        if record.key.tenant != tenant:
            continue
        state = plan_state(snapshot, record.key)
        origin = parse_rule_origin(record.stored.settings.origin)
        rule_set = origin.rule_set if origin is not None else ""
        description = record.compiled.description if record.compiled is not None else ""
        words = f"{record.key.plan} {description} {state.value} {rule_set}".lower()
        entries.append(PlanEntry(record.key, state, rule_set, words))
    return tuple(sorted(entries, key=lambda one: (one.state in NOT_AT_WORK, one.key)))


def _matching(entries: tuple[PlanEntry, ...], wanted: PlanFilter) -> tuple[PlanEntry, ...]:
    words = wanted.q.lower().split()
    return tuple(
        one
        for one in entries
        if all(word in one.words for word in words)
        and wanted.state in ("", one.state.value)
        and wanted.rule_set in ("", one.rule_set)
    )
