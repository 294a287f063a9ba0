"""Which scheme means which target and which source, and how clients of Redis, MQTT and Kafka are opened for both."""
