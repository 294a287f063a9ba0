"""A batch of windows: tasks by object and by pane, one commit, compaction of hours, orphan files, verification."""
