"""Configuration of processes: YAML files, passwords and secrets in files, and their redaction."""
