"""Offsets that groups have committed: kept, shown, expired, deleted; those of open transactions kept back."""
