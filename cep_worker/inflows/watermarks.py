"""The watermark of an inflow: the time before which no source will send further events.

    source A   ──e5──e9─────────────────────▶   promises 9
    source B   ──e3──────e6─────────────────▶   promises 6      the inflow's watermark is 6
    source C   ──e1─ ─ ─ silent for idle_ms     does not count

A source that has joined and sent nothing yet holds back the watermark until it sends, becomes idle or leaves. Pure:
times are arguments in milliseconds; timestamps are event time, `now_ms` is monotonic time.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from topology.events.watermarks import HEARD_OF, NO_WATERMARK


@dataclass(slots=True)
class _SourceWatermark:
    watermark_ms: int
    heard_ms: int
    idle: bool = False
    more: bool = False


@dataclass(slots=True)
class InflowWatermark:
    """The watermark of an inflow, computed from the watermarks of its sources.

    The watermark never goes back while the plan runs.

    `out_of_order_ms` is how late events of a source without its own watermarks may be.
    """

    idle_ms: int
    out_of_order_ms: int
    created_ms: int
    watermark_ms: int = NO_WATERMARK
    idle: bool = False
    """Whether no source is active, so that event time need not wait for this inflow."""
    _sources: dict[Hashable, _SourceWatermark] = field(default_factory=dict)

    def opened(self, now_ms: int) -> None:
        """Start the idle time of sources that have not sent anything: the plan is reachable now."""
        self.created_ms = now_ms
        if not self._sources:
            self.idle = False

    def join(self, source: Hashable, now_ms: int) -> None:
        """Add `source`, which becomes idle if it sends nothing within `idle_ms`."""
        self._sources[source] = _SourceWatermark(NO_WATERMARK, now_ms)
        self._update()

    def advance(self, source: Hashable, newest_ms: int | None, promised_ms: int, now_ms: int) -> None:
        """Record events of `source` and its promise for later ones.

        `newest_ms` is the latest timestamp (None: a batch without events). Later events are not before `promised_ms`
        or, without a promise (`NO_WATERMARK`), the newest timestamp less `out_of_order_ms`. An unknown source joins.
        """
        entry = self._sources.setdefault(source, _SourceWatermark(NO_WATERMARK, now_ms))
        entry.heard_ms = now_ms
        entry.idle = False
        if promised_ms == NO_WATERMARK and newest_ms is not None:
            promised_ms = newest_ms - self.out_of_order_ms
        entry.watermark_ms = max(entry.watermark_ms, promised_ms)
        self._update()

    def rest(self, source: Hashable) -> None:
        """Mark `source` as idle: it has nothing more to send for now.

        For a source that has sent nothing this replaces the first event, for which the watermark would otherwise wait.
        """
        if source in self._sources:
            self._sources[source].idle = True
            self._update()
            if self.idle:
                self.watermark_ms = max(self.watermark_ms, HEARD_OF)

    def leave(self, source: Hashable) -> None:
        """Forget the watermark of `source`, which has ended."""
        if self._sources.pop(source, None) is not None:
            self._update()
            self.idle = self.idle or not self._sources

    def expire(self, now_ms: int) -> None:
        """Mark sources that were silent for `idle_ms` as idle.

        An inflow that never had a source becomes idle `idle_ms` after `opened`.
        """
        for entry in self._sources.values():
            if now_ms - entry.heard_ms >= self.idle_ms and not entry.more:
                entry.idle = True
        self._update()
        if not self._sources and now_ms - self.created_ms >= self.idle_ms:
            self.idle = True

    def hold(self, now_ms: int) -> None:
        """Suspend the idle times of active sources, which cannot send because this inflow is full."""
        for entry in self._sources.values():
            if not entry.idle:
                entry.heard_ms = now_ms

    def note_more(self, source: Hashable, now_ms: int, *, more: bool) -> None:
        """Note whether `source` has more to send, which is read later: as long as it has, its silence means nothing."""
        if more:
            entry = self._sources.setdefault(source, _SourceWatermark(NO_WATERMARK, now_ms))
            entry.more, entry.idle = True, False
        elif (known := self._sources.get(source)) is not None and known.more:
            known.more, known.heard_ms = False, now_ms
        self._update()

    def restart(self, now_ms: int) -> None:
        """Restart event time: forget the watermarks of sources that have ended and keep those of the others."""
        self.created_ms = now_ms
        self.watermark_ms = NO_WATERMARK
        self.idle = False
        self._update()

    def _update(self) -> None:
        active = [entry.watermark_ms for entry in self._sources.values() if not entry.idle]
        if active:
            self.watermark_ms = max(self.watermark_ms, min(active))
            self.idle = False
        elif self._sources:
            self.idle = True
