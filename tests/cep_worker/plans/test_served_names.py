"""Names of plans and streams, with plans that were renamed."""

from __future__ import annotations

import msgspec
import pytest
from worker_world import KEY, PLAN

from cep_common.errors import InputError
from cep_common.ids import PlanKey
from cep_worker.serving.stream_names import ServedNames

RENAMED = msgspec.structs.replace(PLAN, former_names=("Before",))


def test_streams_are_known_once_plans_are_deployed() -> None:
    names = ServedNames()
    with pytest.raises(InputError):
        names.resolve("Departures", KEY.tenant)
    names.deploy([PLAN])
    names.export([PLAN])
    assert names.resolve(PLAN.imported[0].stream, KEY.tenant).members[0].key == KEY
    assert names.exported.resolve(PLAN.exported[0].stream, KEY.tenant).members[0].key == KEY


def test_a_former_name_says_what_the_plan_is_called_now() -> None:
    names = ServedNames()
    names.deploy([RENAMED])
    assert names.plan_key(KEY.tenant, KEY.plan) == KEY
    assert names.plan_key(KEY.tenant, "Other") == PlanKey(KEY.tenant, "Other")
    with pytest.raises(InputError, match=f"plan Before was renamed to {KEY.plan}"):
        names.plan_key(KEY.tenant, "Before")
