"""Random patterns and sequences of every form, and random events for them."""

from __future__ import annotations

import numpy as np
from pattern_runs import Event

COUNTS = ("<2>", "<1:2>", "<2:3>", "<2:>", "<0:2>", "<0:>", "<1:>", "<3:5>")
SEQUENCE_COUNTS = (*COUNTS, "*", "+", "?")


class Maker:
    """Creates one query; `names` are the references so far, each with whether it is counted."""

    def __init__(self, seed: int, *, sequence: bool) -> None:
        self.draw = np.random.default_rng(seed)
        self.sequence = sequence
        self.names: list[tuple[str, bool]] = []
        self.shown: list[tuple[str, bool]] = []

    def chance(self, share: float) -> bool:
        return bool(self.draw.random() < share)

    def one_of(self, *choices: str) -> str:
        return choices[int(self.draw.integers(len(choices)))]

    def operand(self) -> str:
        name, counted = self.names[int(self.draw.integers(len(self.names)))]
        index = self.one_of("[0]", "[last]", "[1]", "[last - 1]") if counted else ""
        return f"{name}{index}"

    def condition(self, own: str = "", *, counted: bool = False) -> str:
        parts = []
        if self.chance(0.6):
            parts.append(self.one_of("v > 3", "v < 7", "k == 'x'", "p != 2.0", "v > 1 and p < 4.5"))
        if self.names and self.chance(0.4):
            other = self.operand()
            parts.append(
                self.one_of(
                    f"v > {other}.v",
                    f"k == {other}.k",
                    f"p <= {other}.p * 1.5",
                    f"v + {other}.v > 7",
                    f"({other}.v is null or v != {other}.v)",
                    f"not (p > {other}.v)",
                    f"v % 3 == {other}.v % 3",
                    f"v / {other}.v >= 1",
                    f"(v - {other}.p) * 2 < 4",
                )
            )
        if counted and self.chance(0.3):
            parts.append(
                self.one_of(f"({own}[last].v is null or v >= {own}[last].v)", f"({own}[0].v is null or v > 1)")
            )
        return f"[{' and '.join(parts)}]" if parts else ""

    def plain(self, *, counts: bool = True) -> str:
        name = f"e{len(self.shown) + 1}"
        counted = counts and self.chance(0.35)
        stream = self.one_of("A", "B", "C")
        text = f"{name}={stream}{self.condition(name, counted=counted)}"
        if counted:
            text += self.one_of(*(SEQUENCE_COUNTS if self.sequence else COUNTS))
        self.names.append((name, counted))
        self.shown.append((name, counted))
        return text

    def silence(self, *, timed: bool) -> str:
        waits = f" for {int(self.draw.integers(1, 12)) * 10} milliseconds" if timed else ""
        return f"not {self.one_of('A', 'B', 'C')}{self.condition()}{waits}"

    def pair(self) -> str:
        operator = self.one_of("and", "or")
        kind = self.draw.random()
        known = self.names.copy()
        if kind < 0.5:
            left = self.plain(counts=False)
            self.names = known  # neither side may refer to the other
            text = f"{left} {operator} {self.plain(counts=False)}"
            self.names = known + self.shown[-2:]
            return text
        timed = operator == "or" or self.chance(0.5)
        silence = self.silence(timed=timed)
        if kind < 0.65:
            return f"{silence} {operator} {self.silence(timed=True) if timed else self.plain(counts=False)}"
        other = self.plain(counts=False)
        return f"{silence} {operator} {other}" if self.chance(0.5) else f"{other} {operator} {silence}"

    def step(self) -> str:
        kind = self.draw.random()
        if kind < 0.6:
            return self.plain()
        return self.pair() if kind < 0.8 else self.silence(timed=True)

    def query(self) -> str:
        arrow = ", " if self.sequence else " -> "
        steps = [self.step() for _ in range(int(self.draw.integers(1, 5)))]
        if self.chance(0.1):  # rounds that begin at a `not` paired with an event keep the elements after the pair
            steps = [f"every not B and {self.plain(counts=False)}", *(self.step() for _ in range(2))]
            return f"{arrow.join(steps)}{self.within(0.7)} select {self.selection()}"
        if self.sequence:
            if self.chance(0.7):
                steps[0] = f"every {steps[0]}"
        else:
            at = int(self.draw.integers(len(steps)))
            if self.chance(0.4):
                end = int(self.draw.integers(at, len(steps))) + 1
                within = self.within(0.2) if end - at > 1 else ""
                steps[at:end] = [f"every ({' -> '.join(steps[at:end])}){within}"]
            elif self.chance(0.7):
                steps[at] = f"every {steps[at]}"
        return f"{arrow.join(steps)}{self.within(0.4)} select {self.selection()}"

    def within(self, share: float) -> str:
        return f" within {int(self.draw.integers(2, 30)) * 10} milliseconds" if self.chance(share) else ""

    def selection(self) -> str:
        columns = ["1 as one"]
        for name, counted in self.shown:
            if counted:
                columns += [f"{name}[0].v as {name}a", f"{name}[last].k as {name}b", f"{name}[1].p as {name}c"]
                columns.append(f"eventTimestamp({name}[last]) as {name}d")
            else:
                columns += [f"{name}.v as {name}a", f"{name}.k as {name}b", f"{name}.p as {name}c"]
        return ", ".join(columns)


def random_query(seed: int, *, sequence: bool) -> str:
    """Return `from` and `select` of a query; it may be one that the analyser refuses."""
    return Maker(seed, sequence=sequence).query()


def random_events(seed: int, count: int, late: float = 0.15) -> list[Event]:
    """Return events that are often at one time and sometimes late, with nulls."""
    draw = np.random.default_rng(seed)
    time = 1000
    events = []
    for _ in range(count):
        time += int(draw.integers(0, 4)) * 10
        behind = int(draw.integers(1, 15)) * 10 if draw.random() < late else 0
        v = None if draw.random() < 0.1 else int(draw.integers(0, 10))
        k = [None, "x", "y"][int(draw.integers(0, 3))]
        events.append(Event("ABC"[int(draw.integers(0, 3))], time - behind, k, v, None if v is None else v / 2))
    return events
