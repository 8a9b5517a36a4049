"""The control loop of the leading manager and its pure state: members, endpoints, fencing, instructions."""
