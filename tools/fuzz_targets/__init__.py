"""Everything that reads bytes from outside, each as a function that takes any bytes.

Errors that users are meant to see are expected; any other error is a defect, and is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.fuzz_targets import messages, state, texts


@dataclass(frozen=True, slots=True)
class FuzzTarget:
    """`run` takes any bytes; `seeds` are such as make sense."""

    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


TARGETS = {
    "registry": FuzzTarget(messages.run_registry, messages.registry_seeds),
    "links": FuzzTarget(messages.run_links, messages.links_seeds),
    "batches": FuzzTarget(messages.run_batches, messages.batches_seeds),
    "http": FuzzTarget(texts.run_http, texts.http_seeds),
    "xml": FuzzTarget(texts.run_xml, texts.xml_seeds),
    "yaml": FuzzTarget(texts.run_yaml, texts.yaml_seeds),
    "language": FuzzTarget(texts.run_language, texts.language_seeds),
    "snapshot": FuzzTarget(state.run_snapshot, state.snapshot_seeds),
    "state": FuzzTarget(state.run_state, state.state_seeds),
}
