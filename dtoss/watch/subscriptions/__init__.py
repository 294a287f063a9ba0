"""Subscriptions as people write them: files of them read and checked, changes kept, which of them are current."""
