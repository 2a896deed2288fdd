"""What a broker shows of itself, under Kafka's names, whoever asks for it."""
