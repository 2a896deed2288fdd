"""Tailrace's own client of Kafka's protocol: synchronous, small, batches first. It works with any Kafka broker.

connection           one socket: versions agreed on, requests in a row, answers in their order, deadlines
cluster              which brokers and leaders there are; one connection to each; tries again what passes
producer             batches in: keys to partitions, idempotence, several requests under way
transactional_producer    the same in transactions, with offsets of groups in them
fetcher, consumer    batches and records out: offsets, timestamps, isolation, waiting for more
group_consumer       the same as a member of a group, which commits how far it has come
admin, config_admin, cluster_admin    topics, offsets and records; settings; brokers, directories, quorum, features
group_admin, transaction_admin    groups of all kinds, their offsets and lag; transactions, and those that hang
errors               a broker's error codes as exceptions

Everything belongs to the thread that made it. Nothing runs in the background, so nothing happens between calls.
"""
