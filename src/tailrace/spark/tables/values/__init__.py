"""What is in a record's value, as columns.

A `ValuePlan` says which columns a table has of the values and how they are decoded. It is made on the driver, goes to
tasks as it is, and never changes. A task that meets what the plan does not know (a field, a schema's id) tells so; the
driver makes the grown plan, and the batch is done again with it.
"""
