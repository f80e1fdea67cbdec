"""The demo: a trained sentence encoder, compiled once, embeds sentences of every length.

A user of pydisc like any other: it calls the public functions and reads the report.
"""
