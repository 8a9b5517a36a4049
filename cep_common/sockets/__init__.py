"""ZeroMQ sockets of the control plane, and what threads and hosts need around them."""
