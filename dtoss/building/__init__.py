"""One partition made from its objects, and proved exact or handed to the fix."""
