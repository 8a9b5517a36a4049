"""The plans that chaos is let loose on, and what each of them must answer. Pure.

Events have a key and a number; the numbers of a key rise, and enter at one worker in that order. Every plan's results
carry both, so that the results themselves tell which events were counted, and in what state each found the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WINDOW = 50

Row = Mapping[str, Any]
Answers = Callable[[Sequence[int]], list[int]]
"""What the plan must answer to the events of one key with these numbers, one answer for each."""


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    """`text` has a place for the delivery. `answer` reads a result's answer; `answers` are those expected. With
    `pairs` the first event of a key has no answer of its own. What it gets has gone through `before` other plans."""

    name: str
    text: str
    answer: Callable[[Row], int]
    answers: Answers
    pairs: bool = False
    before: int = 0

    def deployed(self, delivery: str) -> str:
        """The plan's text, with results in the worker's folder."""
        return f"@Plan:name('{self.name}')\n@Plan:delivery('{delivery}')\n{self.text}"


def sums(numbers: Sequence[int]) -> list[int]:
    """What a plan that sums up the last events of a key answers."""
    return [sum(numbers[max(0, last - WINDOW + 1) : last + 1]) for last in range(len(numbers))]


TICKS = "@Import('Ticks:1.0.0') define stream Ticks (key string, number long);"

PASSED = f"""@Plan:dist(workers='2')
{TICKS}
@Export('Passed:1.0.0') @sink(type='file', file.uri='Passed.ndjson') define stream Answers (key string, number long);
@info(name='passing') @dist(execGroup='passing', parallel='2')
from Ticks[number > 0] select key, number insert into Answers;
"""

WINDOWED = f"""@Plan:dist(workers='2')
{TICKS}
@Export('Windowed:1.0.0') @sink(type='file', file.uri='Windowed.ndjson')
define stream Answers (key string, number long, total long);
@dist(execGroup='summing', parallel='2') partition with (key of Ticks) begin
@info(name='summing') from Ticks#window.length({WINDOW}) select key, number, sum(number) as total insert into Answers;
end;
"""

MATCHED = f"""{TICKS}
@Export('Matched:1.0.0') @sink(type='file', file.uri='Matched.ndjson')
define stream Answers (key string, number long, former long);
@dist(execGroup='matching') partition with (key of Ticks) begin
@info(name='matching')
from every a=Ticks -> b=Ticks select b.key as key, b.number as number, a.number as former insert into Answers;
end;
"""

JOINED = f"""{TICKS}
@Import('Tocks:1.0.0') define stream Tocks (key string, number long);
@Export('Joined:1.0.0') @sink(type='file', file.uri='Joined.ndjson') define stream Answers (key string, number long);
@info(name='joining') @dist(execGroup='joining')
from Ticks#window.length(20000) as a join Tocks#window.length(20000) as b on a.key == b.key and a.number == b.number
select a.key as key, a.number as number insert into Answers;
"""

COUNTED = """@Import('Ticks:1.0.0') define stream Ticks (key string, number long);
@Export('Counted:1.0.0') @sink(type='file', file.uri='Counted.ndjson')
define stream Answers (key string, number long, events long);
@dist(execGroup='counting') @PrimaryKey('key') define table Totals (key string, events long);
@info(name='counting') @dist(execGroup='counting')
from Ticks left outer join Totals as t on t.key == Ticks.key
select Ticks.key as key, number, ifThenElse(t.events is null, 1L, t.events + 1L) as events insert into Counts;
@info(name='keeping') @dist(execGroup='counting')
from Counts select key, events update or insert into Totals set Totals.events = events on Totals.key == key;
@info(name='telling') @dist(execGroup='counting') from Counts select key, number, events insert into Answers;
"""

RELAYED = """@Import('Passed:1.0.0') define stream Passed (key string, number long);
@Export('Relayed:1.0.0') @sink(type='file', file.uri='Relayed.ndjson') define stream Answers (key string, number long);
@info(name='relaying')
from Passed[number > 0] select key, number insert into Answers;
"""

PLANS = (
    ChaosPlan("Passed", PASSED, answer=lambda row: row["number"], answers=list),
    ChaosPlan("Windowed", WINDOWED, answer=lambda row: row["total"], answers=sums),
    ChaosPlan("Matched", MATCHED, lambda row: row["former"], answers=lambda numbers: [0, *numbers[:-1]], pairs=True),
    ChaosPlan("Joined", JOINED, answer=lambda row: row["number"], answers=list),
    ChaosPlan("Counted", COUNTED, lambda row: row["events"], answers=lambda numbers: list(range(1, len(numbers) + 1))),
    ChaosPlan("Relayed", RELAYED, answer=lambda row: row["number"], answers=list, before=1),
)
