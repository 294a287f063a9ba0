"""The commands under ``windows``."""
