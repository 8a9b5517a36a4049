"""What was sent and what came back: nothing may be lost, and no answer may be wrong. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chaos_plans import ChaosPlan, Row

MOST_TOLD = 5


@dataclass(slots=True)
class Ledger:
    """Numbers by key: `accepted` are those that a worker said it had taken, `uncertain` those of which nothing was
    heard when the connection broke; they may have been counted or not."""

    accepted: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    uncertain: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    def sent(self) -> int:
        """How many events were accepted."""
        return sum(len(numbers) for numbers in self.accepted.values())


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a plan's results are, held against the ledger; `wrong` tells of some answers that no state can give."""

    plan: str
    lost: int
    duplicated: int
    wrong: tuple[str, ...]

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict("all", self.lost + other.lost, self.duplicated + other.duplicated, (*self.wrong, *other.wrong))


def judge(plan: ChaosPlan, ledger: Ledger, rows: Iterable[Row]) -> Verdict:
    """How `rows`, all results of `plan`, stand to what was accepted."""
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row["key"]].append(row)
    lost, duplicated, wrong = 0, 0, []
    for key in sorted({*by_key, *ledger.accepted}):
        found, duplicates, faults = _judge_key(plan, by_key[key], ledger.accepted[key])
        missing = set(ledger.accepted[key]) - found
        strange = found - set(ledger.accepted[key]) - ledger.uncertain[key]
        lost += len(missing)
        duplicated += duplicates
        wrong += [f"{plan.name} {key}: {fault}" for fault in faults]
        wrong += [f"{plan.name} {key}: {number} was never sent" for number in sorted(strange)]
    return Verdict(plan.name, lost, duplicated, tuple(wrong[:MOST_TOLD]))


def _judge_key(plan: ChaosPlan, rows: Sequence[Row], accepted: Sequence[int]) -> tuple[set[int], int, list[str]]:
    """The numbers that were counted, how many results came more than once, and answers that are wrong.

    What is lost may be events, or results of events that the plan has counted: answers are those of one or the other.
    """
    seen = Counter((row["number"], plan.answer(row)) for row in rows)
    counted = {number for number, _ in seen}
    if plan.pairs:
        counted |= {min(answer for _, answer in seen)} if seen else set()
    numbers = sorted(counted)
    expected = dict(zip(numbers, plan.answers(numbers), strict=True))
    all_numbers = sorted(counted | set(accepted))
    with_lost = dict(zip(all_numbers, plan.answers(all_numbers), strict=True))
    wrong = [f"{number} was answered {answer}, not {expected[number]}" for number, answer in seen
             if answer not in (expected[number], with_lost[number])]  # fmt: skip
    return counted, sum(seen.values()) - len(seen), wrong


class KeyOrder:
    """Looks at results as they come: those of a key must come in the order of their numbers."""

    def __init__(self) -> None:
        self.disorder: list[str] = []
        """Events that came behind later ones of their key; those that come again are not meant."""
        self._newest: dict[tuple[str, str], int] = {}
        self._seen: dict[tuple[str, str], set[int]] = defaultdict(set)

    def note(self, plan: str, key: str, number: int) -> None:
        """The next result of `plan` is that of event `number` of `key`."""
        place = plan, key
        newest = self._newest.get(place, number)
        if number < newest and number not in self._seen[place]:
            self.disorder.append(f"{plan} {key}: {number} came behind {newest}")
        self._seen[place].add(number)
        self._newest[place] = max(newest, number)


def rates(times_s: Mapping[str, Sequence[float]]) -> list[str]:
    """For each kind of fault the median and the highest percentile of the times until results flowed again."""
    lines = []
    for kind, times in sorted(times_s.items()):
        ordered = sorted(times)
        median, late = ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        lines.append(f"chaos: {kind}: faults={len(ordered)} p50={median:.1f} s p99={late:.1f} s")
    return lines
