"""Who may ask, how often, and pages of which origins: what is known of a request from its headers alone."""
