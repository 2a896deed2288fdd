"""The transaction coordinator: transactional ids and their transactions, on `__transaction_state`."""
