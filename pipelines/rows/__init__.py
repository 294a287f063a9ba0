"""From files and frames to our columns and back; bad rows with a reason."""
