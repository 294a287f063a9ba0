"""PS2Stream (Chen et al., ICDE 2017): a tree that cuts by space and by words, and cells that move."""
