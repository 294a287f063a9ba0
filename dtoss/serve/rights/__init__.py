"""What the token of a request may do and see: which calls, which objects and attributes, which subscriptions."""
