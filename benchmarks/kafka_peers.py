"""What the Kafka benchmark compares a plan with: a bare loop of the client, and Spark Structured Streaming."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition

LEAST = 0.1
"""Events with a higher level pass the filter."""
AT_ONCE = 10_000
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
CONNECTOR_VERSION = os.environ.get("CEP_SPARK_KAFKA", "4.2.0")
"""Spark's Kafka connector on Maven Central; where there is none of Spark's own version, the newest before it."""


class TopicReading(msgspec.Struct):
    """An event as the bare loop decodes it."""

    sent: int
    device: str
    level: float
    note: str


def committed_reader(servers: str, topic: str, partitions: int) -> Consumer:
    """Return a consumer of all partitions from their beginning that reads what is committed."""
    consumer = Consumer({
        "bootstrap.servers": servers, "group.id": f"benchmark-{topic}", "enable.auto.commit": False,
        "fetch.queue.backoff.ms": 10, "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    return consumer


def produce(producer: Producer, topic: str, value: bytes, partition: int = -1) -> None:
    """Produce the message, and wait for room in the client's queue where it is full."""
    while True:
        try:
            producer.produce(topic, value, partition=partition)
        except BufferError:
            producer.poll(0.05)
        else:
            return


@contextmanager
def bare_loop(servers: str, source: str, sink: str, partitions: int) -> Iterator[None]:
    """Consume, decode, filter, encode and produce in a process, as short as it can be written."""
    process = multiprocessing.get_context("spawn").Process(
        target=pass_on, args=(servers, source, sink, partitions), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def pass_on(servers: str, source: str, sink: str, partitions: int) -> None:
    """Do what the plan does, until the process ends."""
    consumer = committed_reader(servers, source, partitions)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    decoder, encoder = msgspec.json.Decoder(TopicReading), msgspec.json.Encoder()
    while True:
        first = consumer.poll(0.2)
        for one in [] if first is None else [first, *consumer.consume(AT_ONCE, timeout=0)]:
            event = decoder.decode(one.value())
            if event.level > LEAST:
                produce(producer, sink, encoder.encode(event))
        producer.poll(0)


@contextmanager
def structured_streaming(servers: str, source: str, sink: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the filter as a Spark query with micro-batches that follow each other at once; its log goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([sys.executable, "-m", "benchmarks.kafka_peers", servers, source, sink, folder])  # noqa: S603
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def stream(servers: str, source: str, sink: str, folder: str) -> None:
    """Pass the events on with Spark Structured Streaming until the process ends."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only this peer needs it
    from pyspark.sql.functions import col, from_json, struct, to_json  # noqa: PLC0415

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", f"{CONNECTOR}:{CONNECTOR_VERSION}")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    read = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )
    event = from_json(col("value").cast("string"), "sent LONG, device STRING, level DOUBLE, note STRING").alias("event")
    names = ("sent", "device", "level", "note")
    passed = read.select(event).where(col("event.level") > LEAST)
    passed.select(to_json(struct(*(col(f"event.{name}") for name in names))).alias("value")).writeStream.format(
        "kafka"
    ).option("kafka.bootstrap.servers", servers).option("topic", sink).option(
        "checkpointLocation", folder
    ).start().awaitTermination()


if __name__ == "__main__":
    stream(*sys.argv[1:5])
