"""What the page of the map asks for and is told."""
