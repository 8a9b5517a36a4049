"""The names that a plan's text defines, also while it is being written."""

import pytest

from cep_manager.authoring.compiler import validate_plan
from cep_manager.authoring.model import ScopeName
from siddhi.scripts.language import ScriptPolicy

PLAN = """
@Plan:name('P')
@Plan:description('ends with; a semicolon')
@Import('In:1.0.0')
define stream In (a int, b string); -- not a stream: define stream No (a int);
define function twice[python] return long { return [1; 2]; { } };
define table Kept (k string);
define window Recent (a int) length(5);
define trigger Tick at every 5 sec;
@info(name='q') from In[a > 1] select a, b as c insert into Derived;
from In select b as k insert into Kept;
partition with (b of In) begin from In select a insert into #Inner; from #Inner select a insert into Last; end;
"""


def scope(text: str) -> dict[str, ScopeName]:
    return {name.name: name for name in validate_plan(text, ScriptPolicy()).scope}


def test_a_valid_plan_tells_all_streams_also_those_that_queries_make() -> None:
    text = PLAN.replace("{ return [1; 2]; { } }", "{ return data[0] * 2 }")
    found = scope(text)
    assert found["Derived"] == ScopeName("stream", "Derived", (("a", "int"), ("c", "string")), fed=True)
    assert found["In"] == ScopeName("stream", "In", (("a", "int"), ("b", "string")), fed=False)
    assert (found["Kept"].kind, found["Kept"].fed) == ("table", True)
    assert found["Tick"].attributes == (("triggered_time", "long"),)
    assert found["#Inner"].attributes == (("a", "int"),)
    assert found["twice"] == ScopeName("function", "twice", (("result", "long"),))


def test_a_plan_with_mistakes_tells_its_definitions() -> None:
    found = scope(PLAN.replace("from In[a > 1]", "from In[nothing > 1]"))
    assert {"In", "Kept", "Recent", "Tick", "twice"} <= set(found)
    assert "Derived" not in found


@pytest.mark.parametrize(
    "end", ["from In[", "from In select ", "define stream Half (a", "@info(", "'open", "/* open", "}"]
)
def test_a_half_written_text_tells_the_definitions_that_can_be_read(end: str) -> None:
    found = scope(f"{PLAN}\n{end}")
    assert {"In", "Kept", "Recent", "Tick", "twice"} <= set(found)
    assert "No" not in found
    assert found["In"].attributes == (("a", "int"), ("b", "string"))


def test_a_definition_behind_an_open_statement_is_found() -> None:
    assert "Later" in scope("from In select a insert into Out\ndefine stream Later (x int);")


def test_long_nonsense_is_read_in_time() -> None:
    assert scope("define stream {" * 2_000 + "'" * 2_000) == {}
