"""The commands that ask standing questions and watch: subscribe, unsubscribe, subscriptions, watch, events, deliver."""
