"""Simulation of strategies: a stream read, its rounds, what each strategy would have done; no Spark."""
