"""What a user may say to the source and to the sink, understood and checked before any job starts."""
