"""The operating system's view of a process: priority, memory, age and private folders."""
