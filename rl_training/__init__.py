"""Policies: supervised fine-tuning on traces, GRPO with composed rewards, evaluation. Imports the ground alone."""
