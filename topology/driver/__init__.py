"""The decisions of the driver: life of topologies, placement on stage hosts, and whose orders count. Pure."""
