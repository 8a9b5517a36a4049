"""Feeds a worker numbered events over HTTP, and writes down what it said it had taken."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Mapping
from typing import Any

import requests
from chaos_ledger import Ledger

from cep_common.security.tokens import bearer

KEYS = 4
EVENTS_EACH = 5
PAUSE_S = 0.05
PATIENCE_S = 5.0
RETRY_S = 0.2

NOT_TAKEN = frozenset(range(400, 600))
"""Statuses that say that nothing was taken: the same events are sent again."""


class Feeder(threading.Thread):
    """Sends to `url` until `close`: to stream Ticks, and then the same to Tocks. When nothing is heard of a request, it
    continues with other keys, so that nothing of it can come between later events."""

    def __init__(self, name: str, url: str, token: str) -> None:
        super().__init__(name=f"feeder of {name}", daemon=True)
        self.ticks, self.tocks = Ledger(), Ledger()
        self.problem = ""
        self._url = url
        self._headers = bearer(token)
        self._worker = name
        self._generation = 0
        self._number = 0
        self._lock = threading.Lock()
        self._numbers: list[int] = []
        self._times_s: list[float] = []
        self._closing = threading.Event()

    def close(self) -> None:
        """Nothing more is sent."""
        self._closing.set()
        self.join()

    def accepted_s(self, number: int) -> float:
        """When the event after `number` was accepted (monotonic): results that end there are as old as that. Now, when
        there is none."""
        with self._lock:
            place = bisect_right(self._numbers, number)
            return self._times_s[place] if place < len(self._times_s) else time.monotonic()

    def run(self) -> None:
        with requests.Session() as session:
            while not self._closing.wait(PAUSE_S):
                events = self._next()
                for stream, ledger in (("Ticks", self.ticks), ("Tocks", self.tocks)):
                    if not self._send(session, stream, ledger, events):
                        break

    def _next(self) -> list[dict[str, Any]]:
        key = f"{self._worker}/{self._number % KEYS}/{self._generation}"
        numbers = range(EVENTS_EACH * self._number + 1, EVENTS_EACH * (self._number + 1) + 1)
        self._number += 1
        return [{"key": key, "number": number} for number in numbers]

    def _send(self, session: requests.Session, stream: str, ledger: Ledger, events: list[dict[str, Any]]) -> bool:
        """True when the events were taken; False when nobody knows, or the feeder is to end."""
        key, numbers = events[0]["key"], [event["number"] for event in events]
        while not self._closing.is_set():
            try:
                answer = session.post(
                    f"{self._url}/events/{stream}", json=events, headers=self._headers, timeout=PATIENCE_S
                )
            except requests.ConnectionError as error:
                if _never_arrived(error):
                    time.sleep(RETRY_S)
                    continue
                return self._unknown(ledger, key, numbers)
            except requests.RequestException:
                return self._unknown(ledger, key, numbers)
            if answer.status_code in NOT_TAKEN:
                self.problem = f"{answer.status_code}: {answer.text[:200]}"
                time.sleep(RETRY_S)
                continue
            ledger.accepted[key] += numbers
            with self._lock:
                self._numbers.append(numbers[-1])
                self._times_s.append(time.monotonic())
            return True
        return False

    def _unknown(self, ledger: Ledger, key: str, numbers: list[int]) -> bool:
        ledger.uncertain[key] |= set(numbers)
        self._generation += 1
        return False


def _never_arrived(error: requests.ConnectionError) -> bool:
    """True when there was no connection on which the request could have gone."""
    return isinstance(error, requests.ConnectTimeout) or "Failed to establish a new connection" in str(error)


def require_load(feeders: Mapping[str, Feeder]) -> None:
    """Raises RuntimeError when a feeder has ended: without load nothing is late, and nothing is lost."""
    ended = [f"{name}: {feeder.problem or 'see its traceback'}" for name, feeder in feeders.items()
             if not feeder.is_alive()]  # fmt: skip
    if ended:
        raise RuntimeError(f"feeders have failed: {'; '.join(ended)}")


def close_all(feeders: Mapping[str, Feeder]) -> None:
    """Nothing more is sent. Raises RuntimeError when a feeder has ended before."""
    try:
        require_load(feeders)
    finally:
        for feeder in feeders.values():
            feeder.close()


def merged(feeders: Mapping[str, Feeder]) -> tuple[Ledger, Ledger]:
    """What all feeders have sent: to Ticks, and to both streams."""
    ticks, both = Ledger(), Ledger()
    for feeder in feeders.values():
        ticks.accepted.update(feeder.ticks.accepted)
        ticks.uncertain.update(feeder.ticks.uncertain)
        for key, numbers in feeder.ticks.accepted.items():
            beyond = set(feeder.tocks.accepted[key])
            both.accepted[key] = [number for number in numbers if number in beyond]
            both.uncertain[key] = feeder.tocks.uncertain[key] | feeder.ticks.uncertain[key]
    return ticks, both
