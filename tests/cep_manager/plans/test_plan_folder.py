"""Which files of a watched folder are deployed, and when."""

from __future__ import annotations

import pytest

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.plans.folder import FolderChanges, PlanFolder, origin_of, parse_origin, tenant_of

LATE = PlanKey(SUPER_TENANT, "Late")
ORIGIN = origin_of("late.siddhiql", b"...")


def test_a_file_is_read_once_it_has_stayed_the_same_and_again_when_it_changes() -> None:
    folder = PlanFolder()
    assert folder.look({"late.siddhiql": (1, 10)}, {}) == FolderChanges((), ())
    assert folder.look({"late.siddhiql": (2, 20)}, {}) == FolderChanges((), ())
    assert folder.look({"late.siddhiql": (2, 20)}, {}) == FolderChanges(("late.siddhiql",), ())
    folder.handled("late.siddhiql")
    assert folder.look({"late.siddhiql": (2, 20)}, {LATE: ORIGIN}) == FolderChanges((), ())
    folder.look({"late.siddhiql": (3, 20)}, {LATE: ORIGIN})
    assert folder.look({"late.siddhiql": (3, 20)}, {LATE: ORIGIN}).changed == ("late.siddhiql",)


def test_a_refused_file_is_told_until_it_changes_or_goes() -> None:
    folder = PlanFolder()
    for _ in range(2):
        folder.look({"late.siddhiql": (1, 1)}, {})
    folder.handled("late.siddhiql", "line 1, column 1: no")
    assert folder.look({"late.siddhiql": (1, 1)}, {}).changed == ()
    assert [(one.name, one.problem) for one in folder.problems()] == [("late.siddhiql", "line 1, column 1: no")]
    folder.look({}, {})
    assert folder.problems() == ()


def test_a_file_whose_name_is_no_text_is_told_in_text_and_never_deployed() -> None:
    name = b"\xe4.siddhiql".decode(errors="surrogateescape")
    with pytest.raises(ValueError, match="not UTF-8; rename it"):
        origin_of(name, b"...")
    folder = PlanFolder()
    folder.look({name: (1, 1)}, {})
    folder.handled(name, "no")
    assert [one.name for one in folder.problems()] == ["\\udce4.siddhiql"]


def test_a_plan_goes_with_its_file_but_not_while_another_file_may_take_it_over() -> None:
    folder = PlanFolder()
    assert folder.look({}, {LATE: ORIGIN}) == FolderChanges((), (LATE,))
    folder = PlanFolder()
    renamed = {"renamed.siddhiql": (1, 1)}
    assert folder.look(renamed, {LATE: ORIGIN}).gone == ()
    assert folder.look(renamed, {LATE: ORIGIN}) == FolderChanges(("renamed.siddhiql",), ())
    folder.handled("renamed.siddhiql")
    assert folder.look(renamed, {LATE: origin_of("renamed.siddhiql", b"...")}).gone == ()


def test_an_origin_survives_the_plan_store() -> None:
    assert parse_origin(ORIGIN.text()) == ORIGIN
    assert parse_origin("") is None


def test_the_folder_of_a_file_is_its_tenant() -> None:
    assert (tenant_of("late.siddhiql"), tenant_of("7/late.siddhiql")) == (SUPER_TENANT, 7)
    with pytest.raises(ValueError, match="'seven'"):
        tenant_of("seven/late.siddhiql")


def test_the_origin_names_the_node_and_files_of_both_are_compared_by_name_and_text() -> None:
    first, second = origin_of("late.siddhiql", b"...", "node-1"), origin_of("late.siddhiql", b"...", "node-2")
    assert parse_origin(first.text()) == first
    assert first != second
    assert first.is_equal(second)
    assert not first.is_equal(origin_of("late.siddhiql", b"other", "node-1"))


def test_a_plan_of_the_other_nodes_file_goes_only_with_a_file_that_was_here() -> None:
    theirs = {LATE: origin_of("late.siddhiql", b"...", "node-1")}
    folder = PlanFolder("node-2")
    assert [folder.look({}, theirs).gone for _ in range(3)] == [(), (), ()], "it was never here"
    files = {"late.siddhiql": (1, 3)}
    folder.look(files, theirs)
    folder.look(files, theirs)
    folder.handled("late.siddhiql")
    folder.note_shared("late.siddhiql")
    assert folder.look({}, theirs).gone == (LATE,)
    assert PlanFolder("node-1").look({}, theirs).gone == (LATE,)
