"""Policies: supervised fine-tuning on traces, then GRPO with composed rewards. Imports the ground, never a neighbour."""
