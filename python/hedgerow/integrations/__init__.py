"""Adapters for agent frameworks; each needs the extra of the same name."""
