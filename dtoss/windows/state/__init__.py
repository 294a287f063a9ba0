"""How windows keep what they know: states with patches, results by hour, what is not kept any more."""
