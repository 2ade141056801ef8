"""Releases in the files that other trainers read: `ser convert REL --to NAME` (docs/interchange.md).

A target is a `base.Target`, found by name among the entry points `ser_toolkit.targets`. It says what a row of each
config becomes; `convert.py` does what all need: reading, the order of speakers, pictures, splits, files, the account
of it all.
"""

from .base import Example, Part, Target
from .convert import Conversion, convert

__all__ = ["Conversion", "Example", "Part", "Target", "convert"]
