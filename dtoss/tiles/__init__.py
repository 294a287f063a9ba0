"""Vector tiles of an index: what a map shows of its objects, cells and regions, as bytes."""
