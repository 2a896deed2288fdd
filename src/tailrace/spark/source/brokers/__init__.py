"""Reading topics from brokers, Tailrace's or Kafka's: looked up on the driver, fetched by the tasks.

links            connections of this process, kept for the next task
origin           which partitions there are, where they begin and end; progress to a group
reader           the rows of a piece of a partition
piece_fetcher    the bytes of a piece: what comes, what is lost, what is tried again
whole_batches    how far a fetched buffer reaches
"""

from tailrace.spark.source.brokers.origin import BrokerOrigin

__all__ = ["BrokerOrigin"]
