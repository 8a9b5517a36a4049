"""Plays random cases in ways that must give the same answers, and tells where they do not.

    PYTHONPATH=. .venv/bin/python -m tools.differential.run --seed 1 --cases 10000 [--first 0] [--no-siddhi]

Each case is played by the engine, by the real Siddhi (fetched from Maven Central the first time), and by the engine in
one or more of the ways of `variants`. A difference that `known` does not explain is made smaller and written to
`var/differential/SEED.jsonl` as a case that `cep simulate` runs, expecting what the other one answered. The last line
of the output counts the cases; the exit code is 1 when a difference is not explained.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siddhi.errors import SiddhiError
from tools.differential.cases import EVENTS_OF_ONE_APP, RandomCase, random_case
from tools.differential.draw import Draw
from tools.differential.known import reason_for
from tools.differential.minimise import minimise
from tools.differential.peer import compare
from tools.differential.siddhi_process import SiddhiProcess
from tools.differential.variants import VARIANTS, changed_answers, chosen_variants, own_answers, told

REPORT_EVERY_S = 60


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that was answered in two ways: `against` says by whom, `expect` is the other answer."""

    case: RandomCase
    against: str
    differences: tuple[str, ...]
    expect: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def document(self) -> dict[str, Any]:
        """Return the case with the other answer as its expectation."""
        document = {**self.case.document(), "note": f"against {self.against}: {'; '.join(self.differences)[:500]}"}
        return {**document, **({"error": self.error} if self.error else {"expect": self.expect})}


@dataclass(slots=True)
class DifferentialRun:
    """Cases of one seed, and how they went."""

    seed: int
    siddhi: SiddhiProcess | None
    shrink: int
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    def play(self, number: int) -> Iterator[Difference]:
        """Play one case, and yield its differences that nothing explains, made smaller."""
        case = random_case(self.seed, number, peer=self.siddhi is not None)
        if self.siddhi is not None:
            found = self._against_siddhi(case)
            if found is not None:
                reason = reason_for(case.document())
                self.reasons[reason.name if reason else "unexplained"] += 1
                if reason is None:
                    yield self._smaller(found)
        if self.siddhi is None or number % EVENTS_OF_ONE_APP == 0:
            names = chosen_variants(Draw(f"{self.seed}.{number}.ways"), 1 if self.siddhi else 3)
            found = self._against_itself(case, names)
            self.outcomes["in another way: " + ("equal" if found is None else "differs")] += 1
            if found is not None:
                yield self._smaller(found)

    def _against_siddhi(self, case: RandomCase) -> Difference | None:
        assert self.siddhi is not None  # noqa: S101 - for mypy
        compared = compare(case.document(), self.siddhi, failing=case.failing)
        self.outcomes[f"Siddhi: {compared.outcome}"] += 1
        if compared.outcome == "Siddhi failed" and not compared.differences:
            self.outcomes["Siddhi: did not end"] += 1
        answer = compared.answer
        if compared.outcome != "differs" or answer is None:
            return None
        expect = None if answer.expect is None else dict(answer.expect)
        error = None if answer.error is None else dict(answer.error)
        return Difference(case, "Siddhi", compared.differences, expect, error)

    def _against_itself(self, case: RandomCase, names: list[str]) -> Difference | None:
        try:
            for name, differences in changed_answers(case.document(), names):
                return Difference(case, name, tuple(differences), own_answers(case.document()))
        except SiddhiError:
            return None  # refused
        except Exception as crash:  # noqa: BLE001 - whatever the engine dies of is what is looked for
            return Difference(case, "crash", (f"{type(crash).__name__}: {crash}",))
        return None

    def _smaller(self, found: Difference) -> Difference:
        if self.shrink <= 0:
            return found
        self.shrink -= 1
        counted = DifferentialRun(self.seed, self.siddhi, 0)

        def again(case: RandomCase) -> Difference | None:
            if found.against == "Siddhi":
                return counted._against_siddhi(case)
            return counted._against_itself(case, [found.against] if found.against in VARIANTS else [])

        def differs(case: RandomCase) -> bool:
            if found.against == "Siddhi" and reason_for(case.document()) is not None:
                return False  # what is left would be another difference, a known one
            difference = again(case)
            return difference is not None and (difference.error is None) == (found.error is None)

        return again(minimise(found.case, differs)) or found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--no-siddhi", action="store_true", help="compare the engine with itself alone")
    parser.add_argument("--shrink", type=int, default=50, help="so many differences are made smaller")
    parser.add_argument("--out", type=Path, default=Path("var/differential"))
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    given.out.mkdir(parents=True, exist_ok=True)
    with ExitStack() as open_things:
        siddhi = None if given.no_siddhi else open_things.enter_context(SiddhiProcess())
        found = open_things.enter_context((given.out / f"{given.seed}.jsonl").open("a", encoding="utf-8"))
        run = DifferentialRun(given.seed, siddhi, given.shrink)
        unexplained, reported = 0, time.monotonic()
        for number in range(given.first, given.first + given.cases):
            for difference in run.play(number):
                unexplained += 1
                found.write(told(difference.document()) + "\n")
                found.flush()
            if time.monotonic() - reported > REPORT_EVERY_S:
                reported = time.monotonic()
                sys.stderr.write(f"{number - given.first + 1} cases: {_summary(run)}\n")
    sys.stdout.write(f"differential: seed={given.seed} cases={given.cases} unexplained={unexplained} {_summary(run)}\n")
    sys.exit(1 if unexplained else 0)


def _summary(run: DifferentialRun) -> str:
    return f"{dict(sorted(run.outcomes.items()))} differing because of {dict(run.reasons.most_common())}"


if __name__ == "__main__":
    main()
