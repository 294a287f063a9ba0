"""What figures 9 to 13 and 16 of the paper measure, on these operators."""
