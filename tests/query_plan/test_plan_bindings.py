"""The input and output streams of a plan, and their external names."""

from __future__ import annotations

from query_plan.components.bindings import EventBinding, plan_bindings
from siddhi.analysis.analyser import analyse
from siddhi.language.parser import parse


def bound(text: str) -> tuple[dict[str, str], dict[str, str]]:
    imported, exported = plan_bindings(analyse(parse(text)))

    def names(bindings: tuple[EventBinding, ...]) -> dict[str, str]:
        return {binding.stream.id: binding.event_stream for binding in bindings}

    return names(imported), names(exported)


def test_import_and_export_name_the_event_stream_and_its_version() -> None:
    assert bound("""
        @Import('trades.raw:1.0.0') define stream A (k int);
        @export('alerts:2.1.0') define stream B (k int);
        from A select * insert into B;
    """) == ({"A": "trades.raw:1.0.0"}, {"B": "alerts:2.1.0"})


def test_sources_and_sinks_bind_a_stream_under_its_own_id() -> None:
    assert bound("""
        @source(type='http', port='8080') define stream A (k int);
        @sink(type='log') @sink(type='file') define stream B (k int);
        define stream Unbound (k int);
        from A select * insert into B;
    """) == ({"A": "A"}, {"B": "B"})


def test_both_kinds_may_stand_in_one_plan_and_on_one_stream() -> None:
    assert bound("""
        @source(type='http') define stream A (k int);
        @sink(type='log') @Export('B:1.0.0') define stream B (k int);
        from A select * insert into B;
    """) == ({"A": "A"}, {"B": "B:1.0.0"})


def test_without_any_binding_what_is_only_read_comes_in_and_what_is_only_written_goes_out() -> None:
    assert bound("""
        define stream A (k int); define stream Middle (k int); define stream Unused (k int);
        define trigger T at 'start';
        from A select * insert into Middle;
        from Middle select * insert into Inferred;
        from T select 1 as k insert into Middle;
    """) == ({"A": "A"}, {"Inferred": "Inferred"})


def test_an_app_takes_in_what_it_reads_and_nobody_writes_whatever_else_has_a_source_or_sink() -> None:
    assert bound("""
        @app:name('P')
        define stream A (k int); define stream Middle (k int); define stream Unused (k int);
        @source(type='http') define stream C (k int); @sink(type='log') define stream B (k int);
        define trigger T at 'start';
        from A select * insert into Middle;
        from Middle select * insert into B;
        from C select * insert into B;
        from T select 1 as k insert into B;
    """) == ({"A": "A", "C": "C"}, {"B": "B"})


def test_an_app_takes_in_what_it_gives_out_and_nobody_writes() -> None:
    assert bound("@app:name('P') @sink(type='log') define stream B (k int);") == ({"B": "B"}, {"B": "B"})


def test_an_execution_plan_that_binds_a_stream_takes_in_what_it_imports_and_no_more() -> None:
    assert bound("""
        @Plan:name('P')
        define stream A (k int);
        @Export('B:1.0.0') define stream B (k int);
        from A select * insert into B;
    """) == ({}, {"B": "B:1.0.0"})


def test_a_bound_stream_keeps_only_what_its_engine_must_know() -> None:
    imported, _ = plan_bindings(
        analyse(
            parse("""
            @source(type='http') @OnError(action='STREAM') @async(workers='2') define stream A (k int);
            from A select * insert into B;
            """)
        )
    )
    assert [annotation.name for annotation in imported[0].stream.annotations] == ["OnError"]
