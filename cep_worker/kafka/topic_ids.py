"""Which topic of a name a source has read: a topic that is deleted and created again has another id.

Offsets say nothing of that: a new topic may already have more messages than were read of the former one. So the ids are
kept in a file, with the generation of positions that belongs to each topic of today.
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
    """The topics that a source has read, kept in a file. Lives on the source's thread."""

    def __init__(self, folder: Path, plan: str, stream: str) -> None:
        self._path = folder / f"{sha256(f'{plan}/{stream}'.encode()).hexdigest()[:32]}.topics.json"
        try:
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, _KnownTopic])
        except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
            self._known = {}

    def differs(self, topic: str, topic_id: str) -> bool:
        """Return whether the topic is another one than before."""
        known = self._known.get(topic)
        return known is not None and topic_id not in UNKNOWN and known.id != topic_id

    def note(self, topic: str, topic_id: str) -> bool:
        """Keep the id of a topic that is there. Return whether it is another topic than before. Raises OSError."""
        differs = self.differs(topic, topic_id)
        if topic_id not in UNKNOWN and (differs or topic not in self._known):
            former = self._known.get(topic)
            generation = 0 if former is None else max(former.generation, former.newest) + 1
            self._known[topic] = _KnownTopic(topic_id, generation, generation)
            self._save()
        return differs

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
