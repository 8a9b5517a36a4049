"""Bodies with a schema: the client of the schema registry, and Avro, Protobuf and JSON Schema."""
