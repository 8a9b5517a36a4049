"""The database that managers share: engine, schema, migrations, and the lease of the leader."""
