"""The dtoss command: options, printing, the end of errors; nothing that a user of the library would call."""
