"""Which worker answers for which cells of a grid, as loads move: strategies, and what each would have done."""
