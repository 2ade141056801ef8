"""Pictures, sounds and videos: taken in by their content, kept by their SHA-256, stripped of what tells on people.

What comes in is untrusted. A type is what the bytes say, never what a name says; sizes are checked before anything is
decoded; a path cannot leave its source's folder; what is damaged raises RecordError("media"). What is kept holds the
picture or the sound alone: EXIF and GPS, tags and comments are gone. May import: the ground floor, Pillow, soundfile.
"""

from __future__ import annotations

from .intake import read_inside, take_in
from .sniffing import FileType, sniff
from .store import MediaStore

__all__ = ["FileType", "MediaStore", "read_inside", "sniff", "take_in"]
