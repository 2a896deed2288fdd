"""Tables, their readers, and the model of what a table must hold."""
