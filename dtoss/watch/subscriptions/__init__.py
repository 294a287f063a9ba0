"""Subscriptions as they are asked: files of them read and checked, changes kept, which of them stand."""
