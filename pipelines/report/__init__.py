"""The page of `ser report`: plots as inline SVG with a table under each, one style sheet, no script, no request."""
