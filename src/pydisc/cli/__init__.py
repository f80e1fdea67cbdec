"""The command `pydisc`: opt, explain, replay, demo. Thin: a file a command, no logic of its own."""
