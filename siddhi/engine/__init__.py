"""Run analysed apps: batches of events in, batches of results out, with time as an argument.

Folders, from the top of the import order to its bottom: `migration` > `snapshots` > `scheduling` > `fast_path` >
`shared_queries` > `planner` > `streams` > `operators` > `emit` > `ingest` > `columnar` > `arrow_c` > `jit`.
"""
