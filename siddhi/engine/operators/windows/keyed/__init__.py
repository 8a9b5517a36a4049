"""Windows for n keys: rows in slots, one line of state for each key, one heap of timers, one loop for each batch."""
