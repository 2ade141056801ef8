"""`python -m pipelines` is `ser`."""

from .cli import main

main()
