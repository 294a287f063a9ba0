"""Windows in a store: their folder, a batch as tasks and one commit, what is asked of it, whether it is whole."""
