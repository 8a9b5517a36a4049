"""Before a plan is edited: what it would keep, with what there is now, and what becomes of events that wait."""

import msgspec
import pytest
from manager_world import World, plan, serves, task, worker

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_common.protocol.registry import InflowReport
from cep_common.protocol.tasks import ComponentState
from cep_common.protocol.worker_reports import ConnectorReport
from cep_manager.authoring.compiler import compile_plan
from cep_manager.authoring.edits import NOT_RUNNING, EditPreviews
from cep_manager.authoring.model import EditedPart, EditedStream, EditPreview
from cep_manager.authoring.processes import BoundedProcesses
from cep_manager.config import TrialConfig
from cep_manager.errors import PlanInvalidError, TrialFailedError
from cep_manager.plans.compiled_plan import CompiledPlan
from siddhi.scripts.language import ScriptPolicy
from topology.edit_preview.messages import EditFates, EditRefused, EditRequest, PartFate

SCRIPTS = ScriptPolicy(frozenset(), "script.python: true")
TEXT = """@Plan:name('Sums')
@Import('ins:1.0.0') define stream S (k string, v int);
@Import('outs:1.0.0') define stream R (k string);
@Export('res:1.0.0') define stream A (k string, v long);
@info(name='sums') from S#window.length(9) select k, sum(v) as v group by k insert into A;
@info(name='longs') from R#window.length(9) select k, 1L as v insert into A;
"""
KEY = PlanKey(SUPER_TENANT, "Sums")
FATES = EditFates(
    (PartFate("s", "query", "sums", kept=True), PartFate("s", "query", "longs", kept=False, reason="why"))
)
WIDENED = "stream S (v long, k string, w int)"


class Answers(BoundedProcesses):
    """Answers without a process."""

    def __init__(self, answer: EditFates | EditRefused) -> None:
        super().__init__(TrialConfig())
        self.answered = answer
        self.asked: list[EditRequest] = []

    def answer(self, module: str, request: bytes, smaller: str, timeout_ms: int) -> bytes:
        assert module == "topology.edit_preview"
        self.asked.append(msgspec.json.decode(request, type=EditRequest))
        return msgspec.json.encode(self.answered)


def compiled_of(text: str) -> CompiledPlan:
    return compile_plan(text, SCRIPTS)


def running(waiting: int = 0) -> World:
    world = World()
    world.put(plan(KEY, text=TEXT, compiled=compile_plan(TEXT, SCRIPTS)))
    inflow = (
        InflowReport("S", connected=True, waiting_events=waiting, in_flight_rows=waiting),
        InflowReport("R", connected=True),
    )
    world.hear(worker(msgspec.structs.replace(serves(key=KEY), inflow=inflow)))
    registered = task(key=KEY)
    held = (ComponentState("query", "sums", rows=600, bytes=2_000),)
    first = msgspec.structs.replace(registered.components[0], held=held)
    world.hear(msgspec.structs.replace(registered, components=(first, *registered.components[1:])))
    return world


def preview(world: World, text: str, answer: EditFates | EditRefused = FATES) -> EditPreview:
    snapshot = world.snapshot()
    return EditPreviews(TrialConfig(), SCRIPTS, Answers(answer), compiled_of).preview(
        snapshot, snapshot.plans[KEY], text
    )


def test_parts_are_told_with_what_they_hold_now() -> None:
    found = preview(running(), TEXT)
    assert (found.plan, found.kept, found.reset, found.note) == (KEY.plan, 1, 1, "")
    assert found.parts == (
        EditedPart(
            "s", "query", "sums", kept=True, reason="", held=ComponentState("query", "sums", rows=600, bytes=2_000)
        ),
        EditedPart("s", "query", "longs", kept=False, reason="why", held=None),
    )
    assert found.streams == ()


@pytest.mark.parametrize(
    ("before", "after", "fate", "reason"),
    [
        ("stream S (k string, v int)", WIDENED, "mapped", "by name; null: w; widened: v (int to long)"),
        ("stream S (k string, v int)", "stream S (v int, k string)", "mapped", "by name"),
        ("stream S (k string, v int)", "stream S (k string, v string)", "failed", "v was int and is string now"),
        ("@Import('ins:1.0.0') define", "define", "failed", "S is not imported by the text"),
        ("length(9) select k, sum", "length(10) select k, sum", "kept", ""),
    ],
)  # fmt: skip
def test_what_becomes_of_events_that_wait_is_told(before: str, after: str, fate: str, reason: str) -> None:
    edited = TEXT.replace(before, after)
    if fate == "failed":
        edited = edited.replace("from S#window.length(9) select k, sum(v)", "from R#window.length(9) select k, count()")
    found = preview(running(waiting=3), edited)
    assert found.streams == (EditedStream("S", 6, fate, reason),)  # type: ignore[arg-type]
    assert preview(running(), edited).streams == (() if fate == "kept" else (EditedStream("S", 0, fate, reason),))  # type: ignore[arg-type]


def test_what_cannot_be_told_is_said() -> None:
    world = World()
    world.put(plan(KEY, text=TEXT, compiled=compile_plan(TEXT, SCRIPTS)))
    assert preview(world, TEXT).note == NOT_RUNNING
    world.put(plan(KEY, text=TEXT, compiled="no window of that name", epoch=2))
    assert preview(world, TEXT) == EditPreview(
        KEY.plan, 0, 0, (), (), "the deployed text cannot run: no window of that name"
    )
    with pytest.raises(PlanInvalidError):
        preview(running(), TEXT + "from Nothing select * insert into B;")
    with pytest.raises(TrialFailedError, match="edit keeps: no such function"):
        preview(running(), TEXT, EditRefused("no such function"))


@pytest.mark.cluster
def test_the_preview_runs_in_a_process_of_its_own() -> None:
    world = running()
    snapshot = world.snapshot()
    config = TrialConfig(timeout_ms=120_000)
    previews = EditPreviews(config, SCRIPTS, BoundedProcesses(config), compiled_of)
    found = previews.preview(snapshot, snapshot.plans[KEY], TEXT.replace("R#window.length(9)", "R#window.length(8)"))
    assert [(one.name, one.kept, one.reason, one.held is not None) for one in found.parts] == [
        ("sums", True, "", True),
        ("longs", False, "its definition changed", False),
    ]


def with_destinations(*numbers: int, strategy: str = "broadcast", prefix: str = "") -> str:
    each = ", ".join(f"@destination(prefix='{prefix}{number}')" for number in numbers)
    sink = f"@sink(type='log', @distribution(strategy='{strategy}', partitionKey='k', {each}))"
    return TEXT.replace("@Export('res:1.0.0')", f"{sink} @Export('res:1.0.0')")


@pytest.mark.parametrize("strategy", ["broadcast", "partitioned", "roundRobin"])
def test_results_that_wait_for_destinations_that_change_are_told(strategy: str) -> None:
    text = with_destinations(1, 2, strategy=strategy)
    other = "broadcast" if strategy != "broadcast" else "partitioned"
    edits = {
        text: False,
        with_destinations(1, 2, strategy=strategy, prefix="new "): False,
        with_destinations(2, 1, strategy=strategy): strategy != "broadcast",
        with_destinations(2, 3, strategy=strategy): strategy != "broadcast",
        with_destinations(1, 3, strategy=strategy): False,
        with_destinations(1, strategy=strategy): True,
        with_destinations(1, 2, 3, strategy=strategy): strategy != "broadcast",
        with_destinations(1, 2, strategy=other): True,
        TEXT: True,
    }
    for waiting in (0, 1_200):
        world = running()
        world.put(plan(KEY, text=text, compiled=compile_plan(text, SCRIPTS)))
        sink = ConnectorReport("sink", "log", KEY.tenant, KEY.plan, "A", waiting_events=waiting)
        world.hear(msgspec.structs.replace(worker(serves(key=KEY)), connectors=(sink,)))
        told = ["1,200 results wait for sinks of A, which" in preview(world, edited).note for edited in edits]
        assert told == [expected and waiting > 0 for expected in edits.values()]
