"""Which topic of a name a source has read: a topic that is deleted and created again has another id.

Offsets say nothing of that: a new topic may already have more messages than were read of the former one. So the ids are
kept in a file for each cluster, with the generation of positions that belongs to each topic of today.

Files and positions used to name no cluster. An id also says whether such a position is one of this cluster's topic.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec

from cep_common.process.atomic_files import write_atomically

UNKNOWN = frozenset({"", "AAAAAAAAAAAAAAAAAAAAAA"})
"""What brokers that know no ids are said to give: nothing, or an id that is all zero."""


class _KnownTopic(msgspec.Struct, frozen=True):
    """A topic's id, the first generation of positions in it, and the newest one of any partition."""

    id: str
    generation: int = 0
    newest: int = 0


class TopicIds:
    """The topics of a cluster that a source has read, kept in a file. Lives on the source's thread."""

    def __init__(self, folder: Path, plan: str, stream: str, cluster: str = "") -> None:
        """`cluster` is empty for brokers that have no id of their cluster."""
        without = folder / f"{_digest(plan, stream)}.topics.json"
        self._path = folder / f"{_digest(plan, stream, cluster)}.topics.json" if cluster else without
        self._known = _read(self._path)
        self._of_any_cluster = _read(without) if cluster else {}
        """What was noted before files were of one cluster."""

    def differs(self, topic: str, topic_id: str) -> bool:
        """Return whether the topic is another one than before."""
        known = self._known.get(topic)
        return known is not None and topic_id not in UNKNOWN and known.id != topic_id

    def note(self, topic: str, topic_id: str) -> bool:
        """Store the id of an existing topic. Return whether it is another topic than before. Raises OSError."""
        differs = self.differs(topic, topic_id)
        former = self._known.get(topic)
        before = self._of_any_cluster.get(topic)
        if former is None and before is not None and before.id == topic_id:
            self._known[topic] = before
            self._save()
        elif topic_id not in UNKNOWN and (differs or former is None):
            generation = 0 if former is None else max(former.generation, former.newest) + 1
            self._known[topic] = _KnownTopic(topic_id, generation, generation)
            self._save()
        return differs

    def had(self, topic: str) -> bool | None:
        """Return whether positions that name no cluster are of this topic; None when its ids do not tell."""
        before, known = self._of_any_cluster.get(topic), self._known.get(topic)
        return None if before is None or known is None else before.id == known.id

    def generation(self, topic: str) -> int:
        """Return the first generation of positions that belongs to the topic of today."""
        known = self._known.get(topic)
        return 0 if known is None else known.generation

    def note_generation(self, topic: str, generation: int) -> None:
        """Record that a partition of the topic has positions of the generation. Raises OSError."""
        known = self._known.get(topic)
        if known is not None and known.newest < generation:
            self._known[topic] = _KnownTopic(known.id, known.generation, generation)
            self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._path, msgspec.json.encode(self._known))


def _read(path: Path) -> dict[str, _KnownTopic]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, _KnownTopic])
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _digest(*names: str) -> str:
    return sha256("/".join(names).encode()).hexdigest()[:32]
