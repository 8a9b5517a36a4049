"""Windows of events for which an expression over the window is true."""
