"""What runs inside a topology's tasks: the stages' instances and the loop that moves bundles between them."""
