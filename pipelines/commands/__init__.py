"""The commands of `ser`: signatures and help; bodies import the work, so that `--help` is fast."""
