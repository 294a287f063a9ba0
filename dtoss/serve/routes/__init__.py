"""Routes of the framework: one file a kind of question, parameters with their bounds, answers that are ready bytes."""
