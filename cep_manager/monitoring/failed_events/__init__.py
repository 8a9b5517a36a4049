"""Events that failed and that workers keep: seen, replayed and discarded through the manager."""
