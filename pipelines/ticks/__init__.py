"""A tick of `dtoss run`: what arrives counts in a history, in windows and in the store, a commit each."""
