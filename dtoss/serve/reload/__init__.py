"""From one snapshot to the next without anybody noticing: opened, verified, warmed, and then in its place."""
