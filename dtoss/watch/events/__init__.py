"""Events as they are read: cursors, consumers, compaction, retention, verification; nothing makes one here."""
