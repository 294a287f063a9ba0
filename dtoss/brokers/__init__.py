"""Redis, MQTT and Kafka: how their clients are opened, for what is sent there and what comes from there."""
