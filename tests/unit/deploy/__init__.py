"""What is made of the tree, without building it."""
