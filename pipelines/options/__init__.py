"""Options as objects: frozen, checked as they are made, taken by jobs, and made of a command's line; no job here."""
