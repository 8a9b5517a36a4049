"""What component instances did in the last ten minutes, three hours, day, and since they were first heard."""
