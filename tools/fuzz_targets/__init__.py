"""Everything that reads bytes from outside, each as a function that takes any bytes.

Errors that users are meant to see are expected; any other error is a defect, and is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.fuzz_targets import messages, state, texts


@dataclass(frozen=True, slots=True)
class Target:
    """`run` takes any bytes; `seeds` are such as make sense."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


TARGETS = {
    "registry": Target(messages.run_registry, messages.registry_seeds),
    "links": Target(messages.run_links, messages.links_seeds),
    "batches": Target(messages.run_batches, messages.batches_seeds),
    "http": Target(texts.run_http, texts.http_seeds),
    "xml": Target(texts.run_xml, texts.xml_seeds),
    "yaml": Target(texts.run_yaml, texts.yaml_seeds),
    "language": Target(texts.run_language, texts.language_seeds),
    "snapshot": Target(state.run_snapshot, state.snapshot_seeds),
    "state": Target(state.run_state, state.state_seeds),
}
