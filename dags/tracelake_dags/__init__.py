"""What the DAGs share. Nothing of it imports the lake's packages: a task starts the lake's own environment."""
