"""State machines of every form in one compiled loop over arrays."""
