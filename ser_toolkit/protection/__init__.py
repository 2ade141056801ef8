"""Protection of the people in the data: what is private, what tells of a crisis, and how such replies are judged.

Texts in, spans and verdicts out; no files, no model, no network. May import: the standard library, pydantic,
phonenumbers and rjieba (inside functions).
"""
