"""Releases: leak-free splits, rows, manifest and card; write, load, compare.

`ser_toolkit.releases.write.write_release` makes one, `.load.load_release` reads one, `.diff.diff_releases`
compares two.
"""
