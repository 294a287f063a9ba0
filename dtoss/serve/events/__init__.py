"""What a watch tells over HTTP: events as they are committed, and subscriptions that requests add and remove."""
