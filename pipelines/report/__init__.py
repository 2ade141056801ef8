"""The page of `ser report`: plots as inline SVG, a table under each, one style sheet, no script and no outside request."""
