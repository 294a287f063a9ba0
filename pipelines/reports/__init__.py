"""What pages of jobs tell: facts as plain values, and how the kit draws them."""
