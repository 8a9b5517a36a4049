"""Kafka: sources and sinks of type `kafka`, and the parts that whatever else speaks to Kafka needs.

client      settings of a client, the library, and what its errors mean to a user
positions   where a partition is read from, and the mark under which that is committed
messages    messages → record batches, and messages that are none
sequences   the header with a number by which repeated messages are known
readings    the partitions that a source reads, and their reports
bounded_calls  calls of the library that are left alone when they hang
source      the source; sink: the sink; replay: messages that are tried again
"""
