"""The REST API of the manager, `/api/v1`; docs/rest.md describes it."""
