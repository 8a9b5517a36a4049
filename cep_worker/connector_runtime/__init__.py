"""Sources and sinks at run time: their types, starting, restarting and ending them as plans and artefacts declare."""
