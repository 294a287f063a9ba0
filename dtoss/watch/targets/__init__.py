"""Where events are handed to: one file a kind of target, chosen by the scheme of a URL."""
