"""The selection of a query: select, group by, having, order by, limit and offset."""
