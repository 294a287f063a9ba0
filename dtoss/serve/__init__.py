"""The query server: its application, over rooms for requests, answers, routes and processes; only dtoss, no Spark."""
