"""Database tables of a plan: `@Store` annotations and JDBC URLs."""
