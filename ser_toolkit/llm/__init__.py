"""Access to language models: one protocol (`chat.ChatModel`), backends found by name."""
