"""Sends live views: one thread renders each once a second, however many clients watch it.

A new client gets the whole view, then changes; one that missed a change gets the whole view again. So nothing is queued
for a client that reads slowly.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import msgspec

from cep_common.errors import CepError
from cep_common.ids import PlanKey
from cep_common.monitoring.paced_log import PacedLog
from cep_manager.errors import ManagerError, StreamsBusyError
from cep_manager.live.merge_patch import merge_patch, tells_something

logger = logging.getLogger(__name__)
paced_logger = PacedLog(logger)

INTERVAL_S = 1.0

Look = Callable[[], Any]
"""The picture of the moment, a struct. Raises CepError when there is nothing left to show."""


class LiveMessage(NamedTuple):
    """What is sent: `picture` with all of it, `change` with a merge patch, or `ended` with a failure as its reason."""

    event: str
    data: bytes


OTHERS_SHARE = 4
"""Each tenant leaves one of this number of places to other tenants."""


class _Topic:
    """What is watched. Guarded by the broadcaster's lock, but for `look`, which its thread alone calls."""

    def __init__(self, look: Look, picture: Any, whole: bytes) -> None:
        self.look = look
        self.picture = picture
        self.version = 1
        self.whole: bytes | None = whole
        self.change = b""
        self.ended: bytes | None = None
        self.watchers = 0


class LiveSubscription:
    """One client's view of a topic. `take` belongs to one thread; `close` may be called by any."""

    def __init__(self, changed: threading.Condition, topic: _Topic, closed: Callable[[], None]) -> None:
        self._changed = changed
        self._topic = topic
        self._closed: Callable[[], None] | None = closed
        self._seen = 0

    def take(self, timeout_s: float) -> LiveMessage | None:
        """Return the next message, waiting up to `timeout_s`; None when there is none.

        No message follows one that has `ended` set.
        """
        topic = self._topic
        with self._changed:
            self._changed.wait_for(lambda: topic.version != self._seen or topic.ended is not None, timeout_s)
            if topic.ended is not None:
                return LiveMessage("ended", topic.ended)
            if topic.version == self._seen:
                return None
            next_one = self._seen and topic.version == self._seen + 1
            self._seen = topic.version
            if next_one:
                return LiveMessage("change", topic.change)
            if topic.whole is None:
                topic.whole = msgspec.json.encode(topic.picture)
            return LiveMessage("picture", topic.whole)

    def close(self) -> None:
        """Another client may watch."""
        with self._changed:
            closed, self._closed = self._closed, None
        if closed is not None:
            closed()


class Broadcaster:
    """All that is watched. Any thread may call; its thread runs while there are clients."""

    def __init__(self, at_once: int) -> None:
        """At most `at_once` may watch at the same time."""
        self._at_once = at_once
        self._changed = threading.Condition()
        self._topics: dict[Hashable, _Topic] = {}
        self._watching = 0
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def watch(self, name: Hashable, look: Look) -> LiveSubscription:
        """Subscribe to the view that `look` renders; subscribers of the same `name` share it.

        The caller closes the subscription. Raises StreamsBusyError, and what `look` raises.
        """
        picture = msgspec.to_builtins(look())
        whole = msgspec.json.encode(picture)
        with self._changed:
            if self._watching >= self._at_once or self._ending.is_set():
                raise StreamsBusyError(
                    f"{self._at_once} pages and programs are watching, which is the limit; poll instead",
                    {"config": "live.at_once", "most": self._at_once},
                )
            self._leave_room(_tenant_of(name))
            topic = self._topics.setdefault(name, _Topic(look, picture, whole))
            topic.watchers += 1
            self._watching += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-pictures", daemon=True)
                self._thread.start()
        return LiveSubscription(self._changed, topic, lambda: self._leave(name, topic))

    def _leave_room(self, tenant: int | None) -> None:
        """Raise StreamsBusyError when those who watch what is the tenant's have left others as little as they may."""
        most = self._at_once - self._at_once // OTHERS_SHARE
        own = sum(topic.watchers for name, topic in self._topics.items() if _tenant_of(name) == tenant)
        if tenant is not None and own >= most:
            raise StreamsBusyError(
                f"{own} pages and programs are watching data of tenant {tenant}; the remaining ones are "
                "reserved for other tenants",
                {"config": "live.at_once", "most": most},
            )

    def close(self) -> None:
        """End all streams and refuse new ones."""
        with self._changed:
            self._ending.set()
            for topic in self._topics.values():
                topic.ended = _reason("manager-unavailable", "the manager is being stopped")
            self._topics.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _leave(self, name: Hashable, topic: _Topic) -> None:
        with self._changed:
            self._watching -= 1
            topic.watchers -= 1
            if topic.watchers == 0 and self._topics.get(name) is topic:
                del self._topics[name]

    def _run(self) -> None:
        while not self._ending.wait(INTERVAL_S):
            with self._changed:
                if not self._topics:
                    self._thread = None
                    return
                topics = dict(self._topics)
            pictures = {name: self._look(topic) for name, topic in topics.items()}
            with self._changed:
                for name, topic in topics.items():
                    self._show(name, topic, pictures[name])
                self._changed.notify_all()

    def _look(self, topic: _Topic) -> Any:
        """Return the picture of the moment, or the reason (bytes) why there is none."""
        try:
            return msgspec.to_builtins(topic.look())
        except CepError as error:
            return _reason(error.code, error.message, error.details if isinstance(error, ManagerError) else {})
        except Exception:
            # The border of this thread: viewers get a message, and the log has the reason.
            paced_logger.exception("a live picture failed")
            return _FAILED

    def _show(self, name: Hashable, topic: _Topic, picture: Any) -> None:
        ended = picture if isinstance(picture, bytes) else _change(topic, picture)
        if ended:
            topic.ended = ended
            if self._topics.get(name) is topic:
                del self._topics[name]


def _change(topic: _Topic, picture: Any) -> bytes:
    """Render the topic's view; return an empty text, or why it cannot be rendered.

    All of it can be sent then, since its parts were sent before or belong to the change.
    """
    try:
        patch = merge_patch(topic.picture, picture)
        if tells_something(patch):
            topic.change = msgspec.json.encode(patch)
            topic.picture = picture
            topic.version += 1
            topic.whole = None
    except Exception:
        # The same border: one picture that cannot be made must not end all others.
        logger.exception("a live picture cannot be made")
        return _FAILED
    return b""


def _reason(code: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    return msgspec.json.encode({"code": code, "message": message, "details": details or {}})


_FAILED = _reason("internal", "the manager failed; its log says more")
"""The message to viewers whose view failed."""


def _tenant_of(name: Hashable) -> int | None:
    """Return the tenant in a topic's name: `("plan", key)`, `("overview", tenant, …)`."""
    about = name[1] if isinstance(name, tuple) and len(name) > 1 else None
    if isinstance(about, PlanKey):
        return about.tenant
    return about if isinstance(about, int) else None
