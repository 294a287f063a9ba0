"""From one set of windows of a name to the next: how it begins from another, when it is whole, who answers then."""
