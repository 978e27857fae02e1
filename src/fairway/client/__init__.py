"""The Python client: an App with its tasks, handles on jobs, and the two ways to reach a scheduler."""
