"""Windows counted anew from their raw rows: for rows that came too late, and for those that were mended or removed."""
