"""The metadata quorum: who leads the cluster, and the log in which it writes down what the cluster is."""
