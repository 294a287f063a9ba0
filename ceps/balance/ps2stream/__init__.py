"""PS2Stream (Chen et al., ICDE 2017), kept to compare with: a tree cut by space and by words, and cells that move."""
