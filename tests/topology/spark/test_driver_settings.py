"""What the driver's configuration means for Spark: labels of hosts, and the lease between driver and executors."""

from __future__ import annotations

import pytest

from topology.spark.driver_side.config import SparkConfig
from topology.spark.driver_side.session import BASE_CONF, address_of, lease_conf


def test_labels_become_what_the_cluster_manager_is_asked_for() -> None:
    on_kubernetes = SparkConfig(master="k8s://https://host:6443", labels=("disk=ssd", "gpu"))
    assert on_kubernetes.label_conf() == {
        "spark.kubernetes.executor.node.selector.disk": "ssd",
        "spark.kubernetes.executor.node.selector.gpu": "true",
    }
    assert SparkConfig(master="yarn", labels=("ssd",)).label_conf() == {
        "spark.yarn.executor.nodeLabelExpression": "ssd"
    }


@pytest.mark.parametrize(
    ("master", "labels", "reason"),
    [
        ("local[4]", ("ssd",), "local mode cannot choose hosts by label"),
        ("spark://host:7077", ("ssd",), r"spark:// cannot choose hosts by label; only YARN and Kubernetes can"),
        ("yarn", ("ssd", "gpu"), "YARN takes one node label"),
    ],
)
def test_labels_that_the_cluster_manager_cannot_keep_are_no_configuration(
    master: str, labels: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        SparkConfig(master=master, labels=labels)


def test_a_plan_is_refused_where_its_labels_are_not_borne_and_told_why() -> None:
    ssd = SparkConfig(master="yarn", labels=("ssd",))
    assert ssd.refuse_labels(("ssd",)) == ssd.refuse_labels(()) == ""
    assert ssd.refuse_labels(("ssd", "gpu")) == (
        "wants hosts labelled gpu; this driver's executors are asked for with labels: ssd"
    )
    assert SparkConfig().refuse_labels(("gpu",)) == (
        "wants hosts labelled gpu; local mode cannot choose hosts by label"
    )


@pytest.mark.parametrize("lease_ms", [1_000, 30_000])
def test_both_sides_give_each_other_up_within_the_lease(lease_ms: int) -> None:
    conf = {key: int(value.removesuffix("ms")) for key, value in lease_conf(lease_ms).items()}
    failures, interval_ms = conf["spark.executor.heartbeat.maxFailures"], conf["spark.executor.heartbeatInterval"]
    assert failures * 2 * interval_ms <= lease_ms, "each failed heartbeat may take an interval and waits for another"
    assert conf["spark.storage.blockManagerHeartbeatTimeoutMs"] == lease_ms
    assert conf["spark.network.timeoutInterval"] < lease_ms


def test_sparks_web_page_is_off_and_can_kill_nothing() -> None:
    assert BASE_CONF["spark.ui.enabled"] == "false"
    assert BASE_CONF["spark.ui.killEnabled"] == "false"


def test_a_page_that_is_asked_for_listens_at_the_drivers_host() -> None:
    assert address_of("localhost") in ("127.0.0.1", "::1")
    assert address_of("10.1.2.3") == "10.1.2.3"
    assert address_of("no such host") == "no such host"
