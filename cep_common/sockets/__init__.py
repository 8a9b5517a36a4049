"""ZeroMQ sockets of the control plane, shared connections, and waiting for many sockets."""
