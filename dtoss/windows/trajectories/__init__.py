"""What rows of objects add to panes: moves and visits of each object, taken back and made anew under late rows."""
