"""Audits: log directories and blocks to audit, and faults to find."""
