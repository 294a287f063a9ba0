"""What one worker has, handed to everything that answers."""
