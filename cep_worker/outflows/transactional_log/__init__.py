"""Results of exactly-once plans, on disk until their checkpoint is complete.

`store` opens the logs of a worker, `prepared_results` is the log of one plan.
"""
