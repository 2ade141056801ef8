"""Rewards: what a reply, or a whole trace, is worth. No torch here: scorers that run a model in process live above."""
