"""Events as they are read: cursors, readers, folding, retention, verification; nothing makes one here."""
