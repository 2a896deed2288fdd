"""Consensus cores that exchange messages: a driver without files, a network with faults, checkers, defects."""
