"""node.yaml: the keys of WSO2's deployment.yaml, and what they mean for the processes of a node."""

from pathlib import Path

import pytest

from cep_cli.node.config import environment_of, read_node_config
from cep_common.configuration.loading import load_with_sources
from cep_common.errors import ConfigError
from cep_manager.config import ManagerConfig
from cep_worker.config import WorkerConfig

DEPLOYMENT = """
wso2.carbon: {id: node-1}
wso2.datasources:
  dataSources:
    - name: WSO2_CLUSTER_DB
      description: The datasource used by cluster coordination
      definition:
        type: RDBMS
        configuration:
          jdbcUrl: jdbc:postgresql://db:5432/WSO2_CLUSTER_DB
          username: wso2
          password: p@ss
          driverClassName: org.postgresql.Driver
          maxPoolSize: 10
state.persistence:
  enabled: true
  intervalInMin: 1
  revisionsToKeep: 4
  persistenceStore: org.wso2.carbon.stream.processor.core.persistence.DBPersistenceStore
  config: {datasource: WSO2_CLUSTER_DB, table: PERSISTENCE_TABLE}
cluster.config:
  enabled: true
  groupId: alerts
  coordinationStrategyClass: org.wso2.carbon.cluster.coordinator.rdbms.RDBMSCoordinationStrategy
  strategyConfig: {datasource: WSO2_CLUSTER_DB, heartbeatInterval: 300, heartbeatMaxRetry: 3, eventPollingInterval: 200}
deployment.config:
  type: ha
  eventByteBufferQueueCapacity: 500
  byteBufferExtractorThreadPoolSize: 5
  eventSyncServer:
    {host: 127.0.0.1, port: 9993, advertisedHost: 127.0.0.3, advertisedPort: 9994, bossThreads: 10, workerThreads: 10}
  eventSyncClientPool: {maxActive: 10, maxTotal: 10, maxIdle: 10, maxWait: 60000, minEvictableIdleTimeMillis: 120000}
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "node.yaml"
    file.write_text(text)
    return file


def test_the_keys_of_a_deployment_yaml_mean_what_they_say(tmp_path: Path) -> None:
    settings = environment_of(read_node_config(written(tmp_path, DEPLOYMENT)), tmp_path)
    manager = load_with_sources(ManagerConfig, None, "manager", settings["manager"]).config
    assert manager.database.url == "postgresql://wso2:p%40ss@db:5432/WSO2_CLUSTER_DB"
    assert (manager.election.heartbeat_ms, manager.election.retries, manager.election.poll_ms) == (300, 3, 200)
    assert (manager.node.name, manager.node.group) == ("node-1", "alerts")
    assert (manager.node.sync_endpoint().host, manager.node.sync_endpoint().port) == ("127.0.0.3", 9994)
    worker = load_with_sources(WorkerConfig, None, "worker", settings["worker"]).config
    assert worker.name == "alerts"  # both nodes' logs are those of one worker
    assert (worker.node.port, worker.node.queue, worker.node.mirror) == (9993, 500, "sync")
    assert Path(worker.wal.path).is_relative_to(worker.node.state)
    assert settings["driver"]["CEP_DRIVER__CHECKPOINT__LOCATION"] == manager.database.url
    assert settings["driver"]["CEP_DRIVER__CHECKPOINT__INTERVAL_MS"] == "60000"
    assert settings["driver"]["CEP_DRIVER__CHECKPOINT__RETAINED"] == "4"


def test_checkpoints_do_not_share_the_file_of_an_embedded_database(tmp_path: Path) -> None:
    config = read_node_config(written(tmp_path, "host: 127.0.0.1\n"))
    assert config.database() == "sqlite:///var/cep/cluster/cluster.db"
    assert config.checkpoints() == "sqlite:///var/cep/cluster/cluster-checkpoints.db"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cluster.config: {groupid: a}", "groupid"),
        ("deployment.config: {type: standalone}", r"deployment\.config\.type|type"),
        ("cluster.config: {enabled: false}", r"cluster\.config\.enabled"),
        ("cluster.config: {strategyConfig: {heartbeatMaxRetry: 1}}", "heartbeatMaxRetry"),
        ("cluster.config: {strategyConfig: {datasource: OTHER}}", "no data source is named OTHER"),
        ("state.persistence: {persistenceStore: FileSystemPersistenceStore, config: {location: /x}}", "config.shared"),
    ],
)
def test_a_wrong_key_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_node_config(written(tmp_path, text))
