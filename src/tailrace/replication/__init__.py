"""What makes a log one replica of a partition: roles, in-sync replicas, epochs, the high watermark."""
