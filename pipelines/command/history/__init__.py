"""The commands of ``dtoss history``."""
