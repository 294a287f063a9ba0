"""From one snapshot or plan to the next without anybody noticing: opened, verified, warmed, and then in its place."""
