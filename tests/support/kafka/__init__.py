"""A real Apache Kafka and its tools."""
