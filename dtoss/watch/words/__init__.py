"""Questions of words: the tokeniser, formulas, what a message holds; nothing of places."""
