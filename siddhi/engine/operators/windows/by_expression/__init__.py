"""Windows that hold events for which an expression over them is true."""
