"""What runs in the tasks of a topology: the instances of stages and the loop that moves bundles between them."""
