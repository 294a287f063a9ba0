"""What pytest-benchmark times: hot paths of two commits, side by side."""
