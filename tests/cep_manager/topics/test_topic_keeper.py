"""Topics are created before a plan is deployed, belong to it, and are deleted when it is gone and all is read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Lock, Thread
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cep_common.ids import SUPER_TENANT, PlanKey
from cep_manager.authoring.compiler import compile_plan
from cep_manager.config import DatabaseConfig, KafkaConfig
from cep_manager.errors import KafkaUnavailableError, PlanInvalidError, TopicRefusedError
from cep_manager.persistence.database import Database
from cep_manager.persistence.schema import PLANS
from cep_manager.plans.compiled_plan import CompiledPlan
from cep_manager.topics import cluster
from cep_manager.topics import keeper as keeper_module
from cep_manager.topics.brokers import admin_settings, with_brokers
from cep_manager.topics.keeper import TopicKeeper, TopicSweeper
from cep_manager.topics.store import KnownTopic, TopicStore
from siddhi.scripts.language import ScriptPolicy

KEY = PlanKey(SUPER_TENANT, "App")
PLAN = """@App:name('App') @App:transport('kafka')
define stream T (id string, v double);
@dist(execGroup='a') from T[v > 1] select id, v insert into M;
@dist(execGroup='b', parallel='2')
partition with (id of M) begin from M select id, sum(v) as s insert into Out; end;
"""
CONFIG = KafkaConfig(
    "broker:9092", options={"security.protocol": "SASL_PLAINTEXT", "sasl.username": "cep"}, tenants=[7]
)


class Cluster:
    """Brokers with these topics."""

    def __init__(self, **topics: int) -> None:
        self.topics = {name.replace("__", "."): count for name, count in topics.items()}
        self.left: dict[str, int] = {}
        self.hidden: set[str] = set()
        """Topics that are there, but not listed."""
        self.offline: set[str] = set()

    def partitions(self) -> Mapping[str, int]:
        return {name: count for name, count in self.topics.items() if name not in self.hidden}

    def create(self, topics: Mapping[str, int]) -> Collection[str]:
        found = topics.keys() & self.topics.keys()
        self.topics |= topics
        return found

    def widen(self, topics: Mapping[str, int]) -> None:
        assert all(self.topics[name] < count for name, count in topics.items())
        self.topics |= topics

    def delete(self, topic: str) -> None:
        del self.topics[topic]

    def unread(self, topic: str, partitions: int, group: str) -> int:
        assert (partitions, group) == (self.topics[topic], f"cep.{topic}")
        if topic in self.offline:
            raise KafkaUnavailableError("no leader")
        return self.left.get(topic, 0)


def compiled(text: str = PLAN) -> CompiledPlan:
    return compile_plan(text, ScriptPolicy())


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(DatabaseConfig(url=f"sqlite:///{tmp_path}/manager.db"), 5_000)
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> TopicStore:
    return TopicStore(database)


def keeper(store: TopicStore, cluster: Cluster) -> TopicKeeper:
    return TopicKeeper(CONFIG, store, cluster)


def sweep(kept: TopicKeeper, needed: Mapping[tuple[int, str], Collection[str]] | None = None) -> int:
    return kept.sweep(lambda: needed or {}, Lock())


def stored(database: Database, key: PlanKey = KEY) -> None:
    """Put the plan into the table of plans."""
    row: dict[str, Any] = {
        "tenant": key.tenant, "name": key.plan, "plan_id": key.identity, "text": "", "created_ms": 1, "updated_ms": 1,
        "epoch": 1, "changed_epoch": 1, "intake": True, "origin": "",
    }  # fmt: skip
    with database.transaction() as connection:
        connection.execute(PLANS.insert().values(row))


def test_topics_get_the_partitions_that_the_plan_needs(store: TopicStore) -> None:
    cluster = Cluster()
    keeper(store, cluster).prepare(KEY, compiled())
    assert cluster.topics == {"App.T": 1, "App.M.id": 2, "App.Out": 1}
    assert [(one.topic, one.created) for one in store.known()] == [
        ("App.M.id", True), ("App.Out", False), ("App.T", False),
    ]  # fmt: skip


def test_topics_that_are_there_are_kept_and_get_partitions_that_they_lack(store: TopicStore) -> None:
    cluster = Cluster(App__T=5, App__M__id=1, App__Out=1)
    keeper(store, cluster).prepare(KEY, compiled())
    assert cluster.topics == {"App.T": 5, "App.M.id": 2, "App.Out": 1}
    assert not any(one.created for one in store.known())


def test_a_plan_that_forbids_it_gets_no_topic_made(store: TopicStore) -> None:
    cluster = Cluster(App__T=1)
    forbidding = compiled("@App:transportChannelCreationEnabled('false') " + PLAN)
    with pytest.raises(TopicRefusedError, match=r"App\.M\.id \(2\), App\.Out \(1\)"):
        keeper(store, cluster).prepare(KEY, forbidding)
    assert cluster.topics == {"App.T": 1}
    cluster.topics |= {"App.M.id": 1, "App.Out": 1}
    with pytest.raises(TopicRefusedError, match=r"too few partitions: .*: App\.M\.id \(1 of 2\)"):
        keeper(store, cluster).prepare(KEY, forbidding)
    assert (cluster.topics["App.M.id"], store.known()) == (1, ())
    cluster.topics["App.M.id"] = 3
    keeper(store, cluster).prepare(KEY, forbidding)
    assert cluster.topics["App.M.id"] == 3


def test_a_topic_of_another_plan_is_refused(store: TopicStore, database: Database) -> None:
    cluster, other = Cluster(), PlanKey(7, "App")
    stored(database)
    keeper(store, cluster).prepare(KEY, compiled())
    with pytest.raises(TopicRefusedError, match="belongs to another plan"):
        keeper(store, cluster).prepare(other, compiled())


def test_what_was_made_between_groups_goes_with_the_plan_once_it_is_read(store: TopicStore, database: Database) -> None:
    cluster = Cluster()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    stored(database)
    needed = {(KEY.tenant, KEY.identity): ["App.T", "App.M.id", "App.Out"]}
    assert not kept.waits(needed)
    assert not kept.waits({})  # a plan that is stored and not known to run keeps its topics
    with database.transaction() as connection:
        connection.execute(PLANS.delete())
    assert kept.waits({})
    cluster.left["App.M.id"] = 3
    assert sweep(kept) == 1
    assert cluster.topics == {"App.T": 1, "App.M.id": 2, "App.Out": 1}
    cluster.left.clear()
    assert sweep(kept) == 0
    assert cluster.topics == {"App.T": 1, "App.Out": 1}
    assert store.known() == ()


def test_what_an_edited_plan_needs_no_more_goes(store: TopicStore, database: Database) -> None:
    cluster = Cluster()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    stored(database)
    edited = compiled(PLAN.replace("partition with (id of M)", "partition with (v of M)"))
    kept.prepare(KEY, edited)
    assert "App.M.v" in cluster.topics
    sweep(kept, {(KEY.tenant, KEY.identity): {one.topic for one in edited.topics}})
    assert cluster.topics == {"App.T": 1, "App.M.v": 2, "App.Out": 1}
    assert KnownTopic("App.M.v", SUPER_TENANT, "App", created=True) in store.known()


def test_a_topic_that_was_there_and_not_listed_is_not_deleted(store: TopicStore) -> None:
    cluster = Cluster(App__M__id=2)
    cluster.hidden.add("App.M.id")
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    cluster.hidden.clear()
    assert sweep(kept) == 0
    assert "App.M.id" in cluster.topics


def test_unread_messages_of_a_plan_that_is_gone_are_not_for_another_tenant(store: TopicStore) -> None:
    cluster = Cluster()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    cluster.left["App.M.id"] = 3
    assert sweep(kept) == 1
    with pytest.raises(TopicRefusedError, match=r"App\.M\.id of stream M has messages of another tenant's plan"):
        kept.prepare(PlanKey(7, "App"), compiled())
    del cluster.topics["App.M.id"]
    kept.prepare(PlanKey(7, "App"), compiled())


def test_tenants_that_are_not_listed_reach_no_topic(store: TopicStore) -> None:
    """Names of topics do not hold the tenant: a plan with the same names would reach those of another one."""
    cluster = Cluster()
    kept = keeper(store, cluster)
    with pytest.raises(TopicRefusedError, match=r"no streams for tenant 8: .* kafka\.tenants"):
        kept.prepare(PlanKey(8, "Other"), compiled())
    with pytest.raises(TopicRefusedError, match="tenant 8"):
        kept.check(PlanKey(8, "Other"), compiled())
    assert (cluster.topics, list(store.known())) == ({}, [])
    kept.prepare(
        PlanKey(8, "Other"), compiled("@App:name('A') define stream T (v int); from T select v insert into O;")
    )


def test_a_topic_without_a_leader_holds_up_no_other(store: TopicStore) -> None:
    cluster = Cluster()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    kept.prepare(PlanKey(SUPER_TENANT, "B"), compiled(PLAN.replace("'App'", "'B'")))
    cluster.offline.add("App.M.id")
    for _ in range(2):
        with pytest.raises(KafkaUnavailableError):
            sweep(kept)
    assert [one.topic for one in store.known()] == ["App.M.id"]
    cluster.offline.clear()
    sweep(kept)
    assert store.known() == ()


def test_a_manager_that_leads_no_more_deletes_nothing(store: TopicStore) -> None:
    cluster = Cluster()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    kept.sweep(lambda: None, Lock())
    assert "App.M.id" in cluster.topics


def test_a_topic_that_another_manager_deploys_a_plan_for_meanwhile_stays(store: TopicStore, database: Database) -> None:
    class Deployed(Cluster):
        def unread(self, topic: str, partitions: int, group: str) -> int:
            stored(database)
            return super().unread(topic, partitions, group)

    cluster = Deployed()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    assert sweep(kept) == 1
    assert "App.M.id" in cluster.topics


def test_brokers_that_are_slow_hold_up_no_other_plan_and_a_plan_waits_for_its_topic(store: TopicStore) -> None:
    asked, answer, changes = Event(), Event(), Lock()

    class Slow(Cluster):
        def delete(self, topic: str) -> None:
            asked.set()
            assert answer.wait(10)
            super().delete(topic)

    cluster = Slow()
    kept = keeper(store, cluster)
    kept.prepare(KEY, compiled())
    sweeper = Thread(target=lambda: kept.sweep(dict, changes))
    sweeper.start()
    assert asked.wait(10)
    with changes:
        kept.prepare(PlanKey(SUPER_TENANT, "B"), compiled(PLAN.replace("'App'", "'B'")))
    again = Thread(target=lambda: kept.prepare(KEY, compiled()))
    again.start()
    again.join(0.1)
    assert again.is_alive()
    answer.set()
    again.join(10)
    sweeper.join(10)
    assert cluster.topics["App.M.id"] == 2
    assert KnownTopic("App.M.id", SUPER_TENANT, "App", created=True) in store.known()


def test_a_topic_whose_deletion_takes_too_long_is_named(store: TopicStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "DELETION_S", 0.01)
    kept = keeper(store, Cluster())

    class Deploying(Cluster):
        def delete(self, topic: str) -> None:
            with pytest.raises(KafkaUnavailableError, match=r"App\.M\.id of an earlier plan is being deleted"):
                kept.prepare(KEY, compiled())

    kept = keeper(store, Deploying(App__T=1, App__Out=1))
    kept.prepare(KEY, compiled())
    assert sweep(kept) == 0


def test_generated_connectors_get_the_brokers_and_others_do_not() -> None:
    own = "@sink(type='kafka', topic='mine', bootstrap.servers='b:1', @map(type='json')) define stream Out (id string);"
    plan = with_brokers(compiled(PLAN.replace("define stream T", own + " define stream T").replace(
        "select id, sum(v) as s", "select id")), CONFIG)  # fmt: skip
    options = {
        one.options.get("topic", one.options.get("topic.list")): one.options for one in plan.sources + plan.sinks
    }
    assert options.keys() == {"App.T", "App.M.id", "mine"}
    assert options["mine"]["bootstrap.servers"] == "b:1"
    assert options["App.T"]["bootstrap.servers"] == "broker:9092"
    assert options["App.T"]["security.protocol"] == "SASL_PLAINTEXT"
    assert [one.carries for one in plan.sources] == [False, True]


def test_a_plan_over_kafka_is_refused_where_no_broker_is_known() -> None:
    with pytest.raises(PlanInvalidError) as caught:
        with_brokers(compiled(), KafkaConfig())
    assert "kafka.servers" in caught.value.problems[0].hint
    assert with_brokers(
        compiled("@App:name('A') define stream T (v int); from T select v insert into O;"), KafkaConfig()
    )


def test_the_managers_client_reads_its_password_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret\n")
    file.chmod(0o600)
    config = msgspec.structs.replace(CONFIG, options=CONFIG.options | {"password.file": str(file)})
    assert admin_settings(config) == {
        "client.id": "cep-manager", "log_level": 0, "bootstrap.servers": "broker:9092", "sasl.mechanism": "PLAIN",
        "security.protocol": "SASL_PLAINTEXT", "sasl.username": "cep", "sasl.password": "secret",
    }  # fmt: skip


def test_the_managers_client_finds_files_that_are_written_as_for_workers() -> None:
    config = KafkaConfig("b:1", options={"ssl.ca.location": "file:///etc/ca.pem", "ssl.key.location": "/etc/key.pem"})
    found = admin_settings(config)
    assert (found["ssl.ca.location"], found["ssl.key.location"]) == ("/etc/ca.pem", "/etc/key.pem")


def test_a_manager_that_ends_does_not_wait_for_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper_module, "SWEEP_S", 0.0)
    monkeypatch.setattr(keeper_module, "CLOSE_S", 0.05)
    asked, answer = Event(), Event()

    class Plans:
        def sweep_topics(self) -> int:
            asked.set()
            answer.wait(10)
            return 0

    sweeper = TopicSweeper(Plans())
    sweeper.start()
    assert asked.wait(10)
    sweeper.close()
    assert sweeper.is_alive()
    answer.set()
    sweeper.join(10)
    assert not sweeper.is_alive()


def test_an_option_that_is_none_of_a_connection_is_refused() -> None:
    with pytest.raises(ValueError, match=r"group\.id is not known here"):
        KafkaConfig("b:1", options={"group.id": "x"})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            KafkaConfig("127.0.0.1:1"),
            r"cannot list topics: .*; brokers: 127\.0\.0\.1:1 \(kafka\.servers in the manager",
        ),
        (KafkaConfig("127.0.0.1:1", options={"security.protocol": "NONE"}), r"Invalid value .NONE."),
        (KafkaConfig("127.0.0.1:1", options={"password.file": "/none"}), r"kafka\.options: password\.file: /none"),
    ],
)
def test_brokers_that_cannot_be_asked_are_named(
    monkeypatch: pytest.MonkeyPatch, config: KafkaConfig, message: str
) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    monkeypatch.setattr(cluster, "CALL_S", 0.1)
    with pytest.raises(KafkaUnavailableError, match=message):
        cluster.KafkaCluster(config).partitions()


def test_brokers_that_never_answer_are_not_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    monkeypatch.setattr(cluster, "CALL_S", 0.01)
    asked = cluster.KafkaCluster(KafkaConfig("127.0.0.1:1"))
    monkeypatch.setattr(asked, "_ask", lambda _doing, _ask: {"App.T": Future[None]()})
    with pytest.raises(KafkaUnavailableError, match=r"cannot delete topic App\.T: the brokers do not answer"):
        asked.delete("App.T")


def test_offsets_that_never_come_are_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("confluent_kafka", reason="pip install 'cep-on-spark[kafka]'")
    monkeypatch.setattr(cluster, "CALL_S", 0.01)
    asked = cluster.KafkaCluster(KafkaConfig("127.0.0.1:1"))
    silent = SimpleNamespace(list_offsets=lambda wanted, **_: {part: Future[None]() for part in wanted})
    monkeypatch.setattr(asked, "_made", silent)
    with pytest.raises(KafkaUnavailableError, match=r"cannot list offsets: the brokers do not answer"):
        asked.unread("App.T", 1, "cep.App.T")
