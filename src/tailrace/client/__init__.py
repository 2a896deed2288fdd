"""Tailrace's own client of Kafka's protocol: synchronous, small, batches first. It works with any Kafka broker.

connection           one socket: versions agreed on, requests in a row, answers in their order, deadlines
cluster              which brokers and leaders there are; one connection to each; tries again what passes
producer             batches in: keys to partitions, idempotence, several requests under way
fetcher, consumer    batches and records out: offsets, timestamps, isolation, waiting for more
admin, config_admin, cluster_admin    topics, offsets and records; settings; brokers, directories, quorum, features
errors               a broker's error codes as exceptions

Everything belongs to the thread that made it. Nothing runs in the background, so nothing happens between calls.
"""
