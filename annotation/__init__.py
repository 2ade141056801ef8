"""People judge steps and replies: items, consensus, and the routes that carry them. May import ser_toolkit only."""
