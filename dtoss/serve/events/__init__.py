"""What a watch tells and is told over HTTP: events as they are committed, subscriptions that come and go."""
