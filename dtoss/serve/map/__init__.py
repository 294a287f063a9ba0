"""What the page of the map asks for and is told: subscriptions in view, loads, live streams, files of the page."""
