"""Topics of Kafka that carry streams between execution groups."""
