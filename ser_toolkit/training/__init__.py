"""What both trainings stand on: models, runs, and prompts that are computed once. The ground's only room with torch."""
