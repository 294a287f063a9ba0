"""OGC API Features: a snapshot as collections of features in longitude and latitude, page by page; no requests here."""
