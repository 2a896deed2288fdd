"""Single requests for every API, sent to Tailrace and to Kafka."""
