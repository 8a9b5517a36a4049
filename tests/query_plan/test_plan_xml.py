"""The XML form: golden plans, reading back what was written, engines from the XML alone, texts that are not plans."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_examples import examples

from query_plan.annotations import DELIVERIES, written_name
from query_plan.builder import build
from query_plan.errors import QueryPlanXmlError
from query_plan.model import (
    ALL,
    GLOBAL,
    SHUFFLE,
    Playback,
    ProcessingStage,
    PublisherStage,
    QueryPlan,
    ReceiverStage,
    Resources,
    StageInput,
    TriggerStage,
    fields,
    stage_app,
)
from query_plan.xml import MAXIMUM_CHARACTERS, read_xml, write_xml
from siddhi.analysis.analyser import analyse
from siddhi.language import ast
from siddhi.language.parser import parse

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = Path(__file__).parents[2] / "samples"
PLANS = [*sorted(GOLDEN.glob("*.siddhiql")), SAMPLES / "flights" / "KnockOnDelays.siddhiql"]


def golden(plan: Path) -> str:
    return (GOLDEN / plan.with_suffix(".xml").name).read_text(encoding="utf-8")


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_a_plan_becomes_exactly_its_golden_xml(plan: Path) -> None:
    assert write_xml(build(analyse(parse(plan.read_text(encoding="utf-8"))))) == golden(plan)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_reading_gives_the_plan_that_was_written(plan: Path) -> None:
    built = build(analyse(parse(plan.read_text(encoding="utf-8"))))
    assert read_xml(golden(plan)) == built


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.stem)
def test_every_stage_becomes_an_app_that_analysis_accepts_from_the_xml_alone(plan: Path) -> None:
    whole = analyse(parse(plan.read_text(encoding="utf-8")))
    read = read_xml(golden(plan))
    for stage in read.processors:
        app = analyse(stage_app(read, stage))
        assert (app.name, app.playback) == (whole.name, whole.playback)
        assert (app.playback_idle_ms, app.playback_increment_ms) == (
            whole.playback_idle_ms,
            whole.playback_increment_ms,
        )
        for name, stream in app.streams.items():
            assert stream.schema == whole.streams[name].schema
    kept = [element for stage in read.processors for element in stage.elements]
    assert len(kept) == len(whole.elements)
    assert all(written_name(element.annotations) for element in kept)


# ---- any plan -------------------------------------------------------------------------------------------------------

_words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
_texts = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"), min_size=1, max_size=9
)
_counts = st.integers(1, 999_999)
_attributes = st.lists(
    st.builds(ast.AttributeDefinition, _words, st.sampled_from(ast.AttributeType)),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one.name,
)
_annotations = st.sampled_from([(), (ast.Annotation("OnError", (ast.AnnotationElement("action", "STREAM"),)),)])
_streams = st.builds(ast.StreamDefinition, _words, _attributes.map(tuple), _annotations)
_definitions = parse("""
    define table `my table` (a string, b int); @Index('a') define table T (a string);
    define window W (a string) length(3) output expired events;
    define function f[python] return string { return "<&>" };
    define aggregation G from S select a, sum(b) as b group by a aggregate every sec, min;
    define trigger Tick at every 5 min; define trigger Cron at '0 0 * * * ?'; define trigger Start at 'start';
""").definitions
_elements = parse("""
    define stream S (a int);
    @info(name='x < y & z') from S[a > 1 and a < 3] select a, '<so> & so' as b insert into T;
    @name('p') @dist(execGroup='g', parallel='2') partition with (a of S) begin
      from S select a insert into #I; from #I#window.length(5) select sum(a) as a insert into O; end;
    from every e1=S -> not S[a == e1.a] for 5 sec select e1.a as a insert into P;
""").elements


def _some(kind: type) -> st.SearchStrategy[tuple]:
    found = [one for one in _definitions if isinstance(one, kind)]
    return st.lists(st.sampled_from(found), unique_by=lambda one: one.id).map(tuple)


@st.composite
def _inputs(draw: st.DrawFn) -> StageInput:
    stream = draw(_streams)
    keyed = st.sampled_from(stream.attributes).map(lambda attribute: fields(attribute.name))
    return StageInput(stream, draw(st.sampled_from([SHUFFLE, ALL, GLOBAL]) | keyed))


def _many(of: st.SearchStrategy) -> st.SearchStrategy[tuple]:
    return st.lists(of, max_size=3).map(tuple)


_stages = st.builds(
    ProcessingStage,
    name=_texts,
    parallel=_counts,
    enforce_parallel=st.booleans(),
    inputs=_many(_inputs()),
    outputs=_many(_streams),
    elements=_many(st.sampled_from(_elements)),
    internal=_many(_streams),
    tables=_some(ast.TableDefinition),
    windows=_some(ast.WindowDefinition),
    functions=_some(ast.FunctionDefinition),
    aggregations=_some(ast.AggregationDefinition),
)
_milliseconds = st.integers(0, 10**12)
_plans = st.builds(
    QueryPlan,
    name=_texts,
    description=st.just("") | _texts | st.just('two\nlines\tand "quotes" <&\'>'),
    playback=st.none() | st.just(Playback()) | st.builds(Playback, _milliseconds, _milliseconds),
    workers=st.none() | _counts,
    resources=st.builds(
        Resources,
        _counts,
        st.integers(0, 10**12),
        _many(st.sampled_from(["ssd", "zone=a", "kubernetes.io/arch=arm64"])),
    ),
    delivery=st.sampled_from(DELIVERIES),
    receiver=st.builds(ReceiverStage, _counts, _many(_streams)),
    processors=_many(_stages),
    triggers=_some(ast.TriggerDefinition).map(lambda found: tuple(map(TriggerStage, found))),
    publisher=st.builds(PublisherStage, _counts, _many(_streams)),
)


def test_what_tasks_may_take_is_read_from_the_text_and_kept_in_the_xml() -> None:
    header = "@Plan:resources(cores='2', memory='1g', labels='ssd, zone=a')\n"
    plan = build(analyse(parse(header + (GOLDEN / "TradeAlerts.siddhiql").read_text(encoding="utf-8"))))
    assert plan.resources == Resources(2, 2**30, ("ssd", "zone=a"))
    assert read_xml(write_xml(plan)).resources == plan.resources
    root = write_xml(plan).splitlines()[1]
    assert 'cores="2" memoryBytes="1073741824" labels="ssd zone=a"' in root


@pytest.mark.parametrize("written", ["@Plan:delivery('Exactly-Once')", "@app:delivery('exactly-once')"])
def test_what_is_guaranteed_is_read_from_the_text_and_kept_in_the_xml(written: str) -> None:
    text = (GOLDEN / "TradeAlerts.siddhiql").read_text(encoding="utf-8")
    plan = build(analyse(parse(f"{written}\n{text}")))
    assert plan.delivery == "exactly-once"
    assert read_xml(write_xml(plan)).delivery == "exactly-once"
    assert 'delivery="exactly-once"' in write_xml(plan).splitlines()[1]
    assert "delivery" not in write_xml(build(analyse(parse(text)))), "the default is not written"


@pytest.mark.thorough
@given(_plans)
@settings(max_examples=examples(60), deadline=None)
def test_any_plan_reads_back_as_it_was_written(plan: QueryPlan) -> None:
    assert read_xml(write_xml(plan)) == plan


# ---- texts that are not plans ----------------------------------------------------------------------------------------


def a_plan() -> str:
    return golden(GOLDEN / "TradeAlerts.siddhiql")


def refused(text: str) -> tuple[str, int | None]:
    with pytest.raises(QueryPlanXmlError) as error:
        read_xml(text)
    problem = error.value.problems[0]
    return problem.code, problem.span.line if problem.span else None


def test_broken_xml_is_refused_with_its_line() -> None:
    assert refused(a_plan().replace("</streams>", "")) == ("xml-malformed", 8)
    assert refused("")[0] == "xml-malformed"
    assert refused("plain text\ud800")[0] == "xml-malformed"


def test_document_types_and_entities_are_refused() -> None:
    doctype = '<!DOCTYPE query-plan [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<query-plan'
    assert refused(a_plan().replace("<query-plan", doctype, 1))[0] == "xml-doctype"
    entity = a_plan().replace("<query-plan", doctype, 1).replace("define stream TradeIn", "&x;define stream TradeIn")
    assert refused(entity)[0] == "xml-doctype"


@pytest.mark.parametrize(
    ("part", "instead", "line"),
    [
        ('name="bigTrades" parallel="3"', 'name="bigTrades" parallel="0"', 9),
        ('name="bigTrades" parallel="3"', 'name="bigTrades" parallel="9999999"', 9),
        ('name="bigTrades" parallel="3"', 'parallel="3"', 9),
        ("<table-definitions/>", "", 11),
        ('grouping="shuffle"', 'grouping="somehow"', 12),
        ('grouping="shuffle"', 'grouping="fields"', 12),
        ('grouping="shuffle"', 'grouping="shuffle" partition="price"', 12),
        ('grouping="shuffle"', 'grouping="fields" partition="nothing"', 12),
        ("<query-plan", "<storm-query-plan", None),
        ("define stream TradeIn (", "define strim TradeIn (", 5),
        ("define stream TradeIn (", "define table TradeIn (", 5),
        ("select symbol, price, volume", "select select,", 19),
        ("@name('bigTrades')", "define table T (a int); @name('bigTrades')", 14),
        ("<table-definitions/>", "<table-definitions>define stream T (a int);</table-definitions>", 10),
    ],
)
def test_xml_that_is_no_query_plan_is_refused_at_its_line(part: str, instead: str, line: int | None) -> None:
    text = a_plan()
    assert part in text
    code, found = refused(
        text.replace(part, instead, 1).replace("</query-plan", f"</{instead[1:]}", 1 if line is None else 0)
    )
    assert code == "xml-invalid"
    assert line is None or found == line


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_damaged_plan_is_refused_or_is_another_plan(data: st.DataObject) -> None:
    text = a_plan()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 30)))
    insert = data.draw(
        st.sampled_from(["", "<", ">", "&", "&#0;", "&x;", "'", '"', "(", "<!-- -->", "<?x?>", "\ud800", "]]>"])
    )
    with suppress(QueryPlanXmlError):
        assert isinstance(read_xml(text[:start] + insert + text[end:]), QueryPlan)


def test_a_text_beyond_all_measure_is_refused_unread() -> None:
    assert refused(" " * (MAXIMUM_CHARACTERS + 1)) == ("xml-too-large", None)


def test_a_plan_that_xml_cannot_hold_is_refused_when_written() -> None:
    plan = QueryPlan("wakeup\a", ReceiverStage(1, ()), (), (), PublisherStage(1, ()))
    with pytest.raises(QueryPlanXmlError) as error:
        write_xml(plan)
    assert error.value.problems[0].code == "text-not-xml"
