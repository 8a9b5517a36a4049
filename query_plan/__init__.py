"""Convert an execution plan to a query plan: execution groups, groupings, the XML form, checks of distribution."""
