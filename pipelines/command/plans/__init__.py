"""Commands about a plan in force: how it is kept up, and whom it has asked."""
