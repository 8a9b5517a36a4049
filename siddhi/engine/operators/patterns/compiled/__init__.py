"""State machines of every form as one compiled loop over arrays."""
