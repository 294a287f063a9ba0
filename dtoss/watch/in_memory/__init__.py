"""Standing questions without a store: rows held against subscriptions in this process, and their events."""
