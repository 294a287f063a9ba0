"""Where events are handed to: one file a kind of target."""
