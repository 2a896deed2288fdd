"""The classic group protocol: members agree through a leader among them; the coordinator only gathers and passes on."""
