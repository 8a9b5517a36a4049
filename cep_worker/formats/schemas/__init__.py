"""Bodies with a schema: the registry that has the schemas, and Avro, Protobuf and JSON Schema by them."""
