"""The content of a topology's tasks: instances of stages, and the loop that moves bundles between them."""
