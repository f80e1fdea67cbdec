"""Code from schedules: `cpu` writes kernels, `host` the program around them, both over `common`.

Emitters are pure: the same schedule gives the same bytes. They branch on schedules and targets,
never on knobs or the machine they run on, and never run what they have made.
"""
