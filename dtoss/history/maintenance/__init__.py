"""What keeps a history whole: verify, restore, clear, retain, forget, export."""
