"""Stage hosts: one process runs the tasks of many plans; its loop, its memory limits and its control threads."""
