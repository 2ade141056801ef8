"""The top floor: the `ser` command, the stages of `ser build`, and the wiring of all packages."""
