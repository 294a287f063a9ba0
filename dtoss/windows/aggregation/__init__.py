"""The second step of windows: patches added up by pane, running sums over panes that enter and leave, results."""
