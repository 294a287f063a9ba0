"""A batch of windows: tasks by object and by pane, one commit, hours folded, files that nothing needs, verification."""
