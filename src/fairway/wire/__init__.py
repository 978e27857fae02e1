"""What node and worker say to each other, whatever carries it."""
