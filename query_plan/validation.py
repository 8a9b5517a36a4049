"""The rules of distribution, as one ordered list of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from query_plan.checks import (
    annotation_names,
    bindings,
    carried,
    conditions,
    connectors,
    crossings,
    groups,
    header,
    joins,
    patterns,
    rates,
    resources,
    scaling,
    shared_state,
    stores,
)
from query_plan.findings import Finding, Rule
from query_plan.planning.groupings import OBSTACLES
from query_plan.planning.survey import Survey
from siddhi.language import ast


@dataclass(frozen=True, slots=True)
class SyntaxCheck:
    """A check that needs the syntax tree alone and runs even when analysis fails; `rules` are those that it checks."""

    run: Callable[[ast.App], Iterator[Finding]]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A check that needs the analysed plan; `rules` are those that it checks."""

    run: Callable[[Survey], Iterator[Finding]]
    rules: tuple[Rule, ...]


CHECKS: tuple[SyntaxCheck | PlanCheck, ...] = (
    SyntaxCheck(header.plan_has_a_name, (header.NAME_MISSING,)),
    SyntaxCheck(header.plan_name_is_usable, (header.NAME_EMPTY, header.NAME_INVALID)),
    SyntaxCheck(header.parallel_is_a_positive_integer, (header.NOT_POSITIVE,)),
    SyntaxCheck(scaling.bounds_are_usable, (scaling.BOUNDS,)),
    SyntaxCheck(header.delivery_is_known, (header.DELIVERY_UNKNOWN,)),
    SyntaxCheck(shared_state.modes_are_usable, (shared_state.MODE_UNKNOWN,)),
    SyntaxCheck(header.transport_is_known, (header.TRANSPORT_UNKNOWN,)),
    SyntaxCheck(header.host_is_known, (header.HOST_UNKNOWN, header.HOST_CONTRADICTED)),
    SyntaxCheck(header.statistics_level_is_known, (header.STATISTICS_UNKNOWN,)),
    SyntaxCheck(header.dist_keys_are_given_once, (header.DIST_REPEATED,)),
    SyntaxCheck(header.dist_keys_are_known, (header.DIST_WITHOUT_KEY, header.DIST_UNKNOWN_KEY)),
    SyntaxCheck(header.dist_is_on_queries_and_partitions, (header.DIST_INSIDE_PARTITION, header.DIST_WITHOUT_EFFECT)),
    SyntaxCheck(resources.resources_are_usable, (resources.RESOURCES_UNUSABLE,)),
    SyntaxCheck(
        header.names_are_usable, (header.STAGE_NAME_EMPTY, header.STAGE_NAME_WHITESPACE, header.STAGE_NAME_INVALID)
    ),
    SyntaxCheck(
        bindings.event_streams_are_well_formed,
        (bindings.IMPORT_EMPTY, bindings.IMPORT_MALFORMED, bindings.EXPORT_EMPTY, bindings.EXPORT_MALFORMED),
    ),
    SyntaxCheck(bindings.no_arbitrary_data, (bindings.ARBITRARY_DATA,)),
    SyntaxCheck(bindings.no_stream_is_imported_and_exported, (bindings.IMPORTED_AND_EXPORTED,)),
    SyntaxCheck(
        connectors.connectors_can_run,
        (
            connectors.WITHOUT_TYPE,
            connectors.UNKNOWN_TYPE,
            connectors.UNKNOWN_MAPPER,
            connectors.UNKNOWN_OPTION,
            connectors.MISSING_OPTION,
            connectors.WRONG_OPTION,
            connectors.IDLE_OPTION,
        ),
    ),
    SyntaxCheck(annotation_names.annotations_are_known, (annotation_names.UNKNOWN, annotation_names.WITHOUT_EFFECT)),
    SyntaxCheck(annotation_names.keys_are_given_once, (annotation_names.REPEATED,)),
    SyntaxCheck(joins.join_filters_have_effect, (joins.FILTER_IGNORED,)),
    SyntaxCheck(
        patterns.patterns_can_match,
        (
            patterns.NEVER_MATCHES,
            patterns.EVERY_ENDS,
            patterns.ONE_ATTEMPT,
            patterns.ONE_EVENT,
            patterns.OPTIONAL_LAST,
            patterns.COUNT_UNUSUAL,
            patterns.NOT_UNHEARD,
        ),
    ),
    SyntaxCheck(rates.output_rates_are_of_something, (rates.RATE_OF_NOTHING,)),
    PlanCheck(bindings.plan_has_queries, (bindings.WITHOUT_QUERIES,)),
    PlanCheck(bindings.read_streams_are_produced, (bindings.READ_UNPRODUCED,)),
    PlanCheck(bindings.exported_streams_are_produced, (bindings.EXPORTED_UNPRODUCED,)),
    PlanCheck(groups.names_are_not_reserved, (groups.RESERVED_NAME,)),
    PlanCheck(groups.element_names_are_unique, (groups.DUPLICATE_NAME,)),
    PlanCheck(groups.stage_names_are_unique, (groups.DUPLICATE_NAME,)),
    PlanCheck(groups.groups_agree_on_parallel, (groups.PARALLEL_DIFFERS,)),
    PlanCheck(groups.parallel_groups_can_be_parallel, OBSTACLES),
    PlanCheck(scaling.scaled_groups_share_the_load, (scaling.SHARED,)),
    PlanCheck(shared_state.shared_state_is_known, (shared_state.STATE_UNKNOWN, shared_state.STATE_DIFFERS)),
    PlanCheck(shared_state.shared_state_stays_equal, (shared_state.STATE_STORED, shared_state.STATE_RANDOM)),
    PlanCheck(shared_state.stages_of_shared_state_have_names, (shared_state.STATE_NAME_TAKEN,)),
    PlanCheck(groups.partition_keys_are_not_objects, (groups.OBJECT_KEY,)),
    PlanCheck(groups.partition_key_streams_exist, (groups.KEY_WITHOUT_STREAM,)),
    PlanCheck(groups.state_stays_in_one_group, (groups.SHARED_STATE, groups.SHARED_PRIVATE)),
    PlanCheck(groups.received_streams_are_not_handed_on, (groups.HANDED_ON,)),
    PlanCheck(groups.groups_form_no_loop, (groups.LOOP,)),
    PlanCheck(carried.streams_between_groups_use_topics, (carried.STAYS_DIRECT,)),
    PlanCheck(carried.topics_can_have_their_names, (carried.TOPIC_TOO_LONG,)),
    PlanCheck(carried.topics_carry_one_stream, (carried.TOPIC_SHARED,)),
    PlanCheck(crossings.objects_stay_in_one_group, (crossings.OBJECT_CROSSES,)),
    PlanCheck(crossings.paths_keep_the_order, (crossings.WAYS_UNORDERED,)),
    PlanCheck(crossings.chunks_end_at_their_group, (crossings.CHUNK_NEEDED, crossings.CHUNK_COUNTED)),
    PlanCheck(stores.stores_are_usable, (stores.STORE_UNUSABLE,)),
    PlanCheck(stores.tables_are_kept_in_memory, (stores.STORE_UNUSED,)),
    PlanCheck(stores.store_options_are_known, (stores.UNKNOWN_STORE_OPTION, stores.STORE_OPTION_IDLE)),
    PlanCheck(groups.ranges_keep_instances_busy, (groups.FEW_LABELS,)),
    PlanCheck(groups.triggers_are_read, (groups.TRIGGER_UNREAD,)),
    PlanCheck(conditions.conditions_are_bools, (conditions.NOT_A_CONDITION,)),
    PlanCheck(groups.triggers_follow_the_system_clock, (groups.TRIGGER_CLOCK,)),
    PlanCheck(groups.instances_can_be_placed, (groups.TOO_MANY_INSTANCES,)),
    PlanCheck(groups.workers_have_instances, (groups.IDLE_WORKERS,)),
    PlanCheck(bindings.imported_streams_are_read, (bindings.IMPORTED_UNREAD,)),
    PlanCheck(bindings.results_have_consumers, (bindings.RESULT_UNUSED,)),
    PlanCheck(bindings.default_bindings_are_announced, (bindings.DEFAULT_BINDINGS,)),
)
"""Every check, in the order of the table in `docs/query-plan/rules.md`."""


def findings_of(plan: Survey) -> tuple[Finding, ...]:
    """Return every error and warning about the distribution of an analysed plan, in order of position."""
    found = list(findings_of_syntax(plan.app.syntax))
    found += [one for check in CHECKS if isinstance(check, PlanCheck) for one in check.run(plan)]
    return in_order(found)


def findings_of_syntax(app: ast.App) -> Iterator[Finding]:
    """Yield the findings about a plan that need no analysis."""
    return (one for check in CHECKS if isinstance(check, SyntaxCheck) for one in check.run(app))


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return `findings` in order of position, each once; those about the whole plan first."""
    return tuple(
        sorted(dict.fromkeys(findings), key=lambda found: found.problem.span.start if found.problem.span else -1)
    )
