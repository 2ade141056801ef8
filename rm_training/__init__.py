"""Training and scoring of reward models: UnifiReward and its baselines. May import ser_toolkit only."""
