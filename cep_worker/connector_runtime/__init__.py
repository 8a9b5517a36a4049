"""Sources and sinks at run time: their types, and the supervisors that start, restart and stop them."""
