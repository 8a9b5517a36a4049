"""A ledger over Kafka: faults of every kind at three brokers and a system that delivers exactly once.

    make kafka-faults CHAOS_FAULTS=30 CHAOS_SEED=31

Events come from a topic, answers go to topics, and one plan has topics between its groups, too. A reader of committed
messages has each answer once, and those of a key in order. Needs root, as `make chaos`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

# The root comes first: folders of tests have the names of packages.
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

from chaos_faults import FAULTS, of_kinds
from chaos_kafka import NAMES, Cluster, KafkaFeeder, Results, kafka_plans
from chaos_ledger import rates
from chaos_run import Chaos, Outcome, prepare, say
from chaos_system import ChaosSystem
from kafka_broker import kafka_cluster
from two_hosts import two_hosts


@dataclass(slots=True)
class KafkaChaos(Chaos):
    """Chaos with events and results in topics of `cluster`."""

    cluster: Cluster = field(kw_only=True)
    reader: Results = field(kw_only=True)

    def feeders(self, system: ChaosSystem) -> dict[str, Any]:
        self.cluster.feeders = [KafkaFeeder(name, self.cluster.servers) for name in NAMES]
        return dict(zip(NAMES, self.cluster.feeders, strict=True))

    def progress(self, system: ChaosSystem, feeders: Iterable[str]) -> Any:
        return self.reader

    def results(self, system: ChaosSystem, plan: str) -> list[dict[str, Any]]:
        return [dict(row) for row in self.reader.rows[plan]]


def run(faults: int, seed: int, folder: Path, kinds: frozenset[str] = frozenset()) -> Outcome:
    """The outcome of so many faults, of all kinds or of `kinds`.

    Results that came out of order are wrong, and so is a message of which nobody knows whether it was sent.
    """
    with two_hosts() as network, kafka_cluster(3, network.here.address, folder) as brokers:
        cluster = Cluster(brokers)
        plans = kafka_plans(cluster.servers)
        cluster.create_topics(plans)
        reader = Results(cluster.servers, plans)
        reader.start()
        try:
            chosen = of_kinds((*FAULTS, *cluster.faults()), kinds)
            chaos = KafkaChaos(
                faults, seed, "exactly-once", folder, chosen, plans, cluster.settings(), cluster=cluster, reader=reader
            )
            outcome = chaos.run_at(network)
        finally:
            reader.close()
    unsent = [f"{feeder.name}: {feeder.problem}" for feeder in cluster.feeders if feeder.problem]
    outcome.verdict = replace(outcome.verdict, wrong=(*outcome.verdict.wrong, *reader.order.disorder[:5], *unsent))
    return outcome


def main() -> int:
    """Runs by the environment; 0 when all is well."""
    faults, seed = int(os.environ.get("CHAOS_FAULTS", "30")), int(os.environ.get("CHAOS_SEED", "31"))
    kinds = frozenset(filter(None, os.environ.get("CHAOS_KINDS", "").split(",")))
    prepare()
    folder = Path(tempfile.mkdtemp(prefix="cep-kafka-faults-"))
    say(f"seed={seed} folder={folder}")
    outcome = run(faults, seed, folder, kinds)
    for line in rates(outcome.times_s):
        print(line)  # noqa: T201
    print(outcome.line())  # noqa: T201
    found = outcome.verdict
    for one in found.wrong:
        say(one)
    return int(bool(found.lost or found.duplicated or found.wrong))


if __name__ == "__main__":
    sys.exit(main())
