"""Files of events: Parquet, CSV, JSON and NDJSON."""
