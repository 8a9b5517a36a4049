"""What is shown of two plans of one name that differ."""

from __future__ import annotations

import pytest

from cep_manager.plans.differences import LARGEST_PARSED, MOST_LINES, difference, normal_form, other_text

RISE = """@Plan:name('Rise') -- temperatures
define stream Temps (room string, temp double);
define stream Alerts (room string);
@info(name='rise') from every e1=Temps, e2=Temps[e1.temp + 1 < temp] select e2.room insert into Alerts;
"""


def test_one_constant_is_the_whole_difference() -> None:
    lines = difference(RISE, RISE.replace("temp + 1", "temp + 2"))
    assert lines[:2] == ("--- deployed", "+++ refused")
    removed, added = ([one for one in lines[2:] if one.startswith(mark)] for mark in "-+")
    assert [one.strip("- ") for one in removed] == ["from every e1=Temps, e2=Temps[e1.temp + 1 < temp]"]
    assert [one.strip("+ ") for one in added] == ["from every e1=Temps, e2=Temps[e1.temp + 2 < temp]"]


@pytest.mark.parametrize(
    "other",
    [
        RISE.replace("-- temperatures", "/* of rooms */"),
        RISE.replace("from every", "FROM   every"),
        RISE.replace(" select", "\n\tselect"),
    ],
)
def test_comments_layout_and_case_of_keywords_are_no_part_of_the_normal_form(other: str) -> None:
    assert other != RISE
    assert normal_form(other) == normal_form(RISE)


def test_comments_are_shown_where_nothing_else_differs() -> None:
    lines = difference(RISE, RISE.replace("temperatures", "of rooms"))
    assert "-@Plan:name('Rise') -- temperatures" in lines
    assert "+@Plan:name('Rise') -- of rooms" in lines


def test_another_order_of_queries_is_a_difference() -> None:
    first, second = "from A select a insert into B;", "from A select a insert into C;"
    head = "@Plan:name('P') define stream A (a int);"
    assert difference(f"{head} {first} {second}", f"{head} {second} {first}")


def test_a_text_that_is_no_longer_a_plan_is_compared_by_its_lines() -> None:
    assert "-from nowhere" in difference("@Plan:name('Rise')\nfrom nowhere", RISE)


def test_long_differences_are_cut_and_say_so() -> None:
    before = "\n".join(f"-- {number}" for number in range(500))
    lines = difference(before, before.replace("--", "//"))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1].endswith("more lines")
    long = "-- " + "x" * LARGEST_PARSED
    assert all(len(line) < 400 for line in difference(long, long + "y"))


def test_the_error_says_what_to_do_and_has_the_difference_for_programs() -> None:
    error = other_text("Rise", RISE, RISE.replace("+ 1", "+ 2"))
    assert error.message == "a plan named Rise is deployed with another text; replace it, or choose another name"
    assert error.details == {"difference": list(difference(RISE, RISE.replace("+ 1", "+ 2")))}
