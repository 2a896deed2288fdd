"""Clients, as plain as possible."""
