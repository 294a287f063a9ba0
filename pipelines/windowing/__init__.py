"""Between Spark and windows: what keys are made of, the tasks of a batch, one batch after another."""
