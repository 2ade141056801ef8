"""Importers: one room a corpus, found by name through the entry points `ser_toolkit.sources`."""
