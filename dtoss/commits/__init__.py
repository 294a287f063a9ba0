"""Commits that are numbered, and made by one writer each: any folder, any document; nothing of snapshots."""
