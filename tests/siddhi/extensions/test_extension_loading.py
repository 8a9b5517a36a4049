"""Extensions of other packages, found by entry points (simulated: nothing is installed)."""

from __future__ import annotations

import importlib
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from extension_runs import Run

from siddhi.analysis.analyser import analyse
from siddhi.analysis.catalogue import builtin_registry
from siddhi.engine import builtins
from siddhi.errors import SiddhiAnalysisError
from siddhi.language.parser import parse
from siddhi.plugins.extension import ENTRY_POINTS, Extension
from siddhi.plugins.loading import BrokenExtension, forget_installed
from siddhi.plugins.packs import packs
from siddhi.registry import Kind
from siddhi.scripts.language import ScriptLanguage

SAMPLE = Path(__file__).parents[3] / "samples" / "extension"
Install = Callable[[dict[str, str]], tuple[BrokenExtension, ...]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Register entry points and return the broken extensions."""

    def offer(points: dict[str, str]) -> tuple[BrokenExtension, ...]:
        found = metadata.EntryPoints(metadata.EntryPoint(name, value, ENTRY_POINTS) for name, value in points.items())
        monkeypatch.setattr(metadata, "entry_points", lambda group: found.select(group=group))
        monkeypatch.syspath_prepend(str(SAMPLE))
        forget_installed()
        return builtins.load_implementations()

    yield offer
    forget_installed()


def sample_entry_points() -> dict[str, str]:
    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project["entry-points"][ENTRY_POINTS])


def test_the_sample_extension_runs_in_an_app_and_survives_a_restart(install: Install) -> None:
    assert install(sample_entry_points()) == ()
    run = Run(
        "define stream In (t double, w double); @info(name='q') from In#window.weather:changes(t, 2) "
        "select t, weather:windChill(t, w) > -20.0 as mild, weather:windChill(t, w) is null as unknown, "
        "weather:range(t) as r insert into Out;"
    )
    run.send((0, [-10.0, 30.0]), (1, [-10.0, 30.0]), (2, [20.0, 30.0]))
    run.restart()
    run.send((3, [20.0, 5.0]), (4, [0.0, 0.0]))
    assert run.taken() == [
        "+-10.0,True,False,0.0",
        "+20.0,False,True,30.0",
        "+0.0,False,True,20.0",
    ]


def test_a_broken_extension_is_named_and_leaves_the_others_alone(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    absolute = next(item for item in packs()[0].declarations if item.name == "abs")
    module = importlib.import_module("extension_runs")
    monkeypatch.setattr(module, "TAKEN", Extension("taken", (absolute,), ()), raising=False)
    python = ScriptLanguage("python", lambda _: len)
    monkeypatch.setattr(module, "SNAKE", Extension("snake", (), (), (python,)), raising=False)
    monkeypatch.setattr(module, "UNMADE", Extension("unmade", (), ("no_such_module",)), raising=False)
    broken = install(
        sample_entry_points()
        | {
            "absent": "no_such_module:X",
            "text": "extension_runs:DROPPED",
            "taken": "extension_runs:TAKEN",
            "unmade": "extension_runs:UNMADE",
            "snake": "extension_runs:SNAKE",
        }
    )
    reasons = {item.entry_point.split()[0]: str(item) for item in broken}
    assert set(reasons) == {"absent", "text", "taken", "unmade", "snake"}
    assert "'absent = no_such_module:X'" in reasons["absent"]
    assert "No module named 'no_such_module'" in reasons["absent"]
    assert "must name an Extension, not a str" in reasons["text"]
    assert "there is a function 'math:abs' already" in reasons["taken"]
    assert "cannot be imported" in reasons["unmade"]
    assert "there is a script language 'python' already" in reasons["snake"]
    assert builtin_registry().find(Kind.AGGREGATOR, "weather", "range") is not None


def test_an_extension_may_bring_a_script_language(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("extension_runs")
    counting = ScriptLanguage("counting", lambda _: len)
    monkeypatch.setattr(module, "COUNTING", Extension("counting", (), (), (counting,)), raising=False)
    assert install({"counting": "extension_runs:COUNTING"}) == ()
    run = Run(
        "define stream In (a int, b int); define function n[counting] return int { }; "
        "@info(name='q') from In select n(a, b) as n insert into Out;"
    )
    run.send((0, [1, 2]))
    assert run.taken() == ["+2"]


def test_without_the_entry_point_the_names_are_unknown(install: Install) -> None:
    install({})
    with pytest.raises(SiddhiAnalysisError, match="weather:windChill"):
        analyse(parse("define stream S (t double); from S select weather:windChill(t, t) as w insert into O"))


def test_every_declaration_of_a_pack_has_an_implementation_and_none_is_undeclared() -> None:
    builtins.load_implementations()
    families = {
        Kind.FUNCTION: importlib.import_module("siddhi.engine.operators.expressions.compiler").FUNCTIONS,
        Kind.AGGREGATOR: importlib.import_module("siddhi.engine.operators.expressions.aggregation").AGGREGATORS,
        Kind.WINDOW: importlib.import_module("siddhi.engine.operators.windows.base.window").WINDOWS,
        Kind.STREAM_FUNCTION: importlib.import_module(
            "siddhi.engine.operators.stream_functions.stream_function"
        ).STREAM_FUNCTIONS,
    }
    declared = {declaration.key for pack in packs() for declaration in pack.declarations}
    namespaces = {namespace for _, namespace, _ in declared}
    made = {(kind, *names) for kind, family in families.items() for names in family if names[0] in namespaces}
    assert made == declared


@pytest.mark.cluster
def test_declarations_are_read_without_numpy_numba_and_arrow() -> None:
    program = (
        "import sys, siddhi.plugins.packs;"
        "from siddhi.analysis.catalogue import builtin_registry; builtin_registry();"
        "print([name for name in ('numpy', 'numba', 'pyarrow', 'siddhi.engine') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)  # noqa: S603
    assert result.stdout.strip() == "[]"
