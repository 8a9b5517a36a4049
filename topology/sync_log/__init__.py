"""The log of a group with shared state in a Kafka topic (`sync='kafka'`).

kafka_topic > task_logs > writer | reader > records | settings
"""
