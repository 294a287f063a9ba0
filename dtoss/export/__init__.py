"""Files and rings for other tools and for maps."""
