"""The HTTP face of a node: routes by noun on the Desk contract, nothing else."""
