"""What docs/benchmarks.md claims, as code that prints it. Each figure is a ratio taken side by side in one run."""
