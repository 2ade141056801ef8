"""Measures of data and of raters."""
