"""Plans as the manager keeps them: compiled form, record, states, store, quotas, rule sets."""
