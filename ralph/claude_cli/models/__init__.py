"""The models that can hold a conversation, by the name `--model` gives them. Each is imported when it is chosen."""
