"""Share groups, as their coordinator sees them: members, what each may read, and which partitions have a state."""
