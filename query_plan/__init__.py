"""From an execution plan to a query plan: execution groups, groupings, the XML form, and the checks of distribution."""
