"""Training of policies: supervised fine-tuning and GRPO with redundancy reweighting. May import ser_toolkit only."""
