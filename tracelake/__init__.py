"""tracelake: batch analytics over a data lake of training profiles."""

__version__ = "0.1.0"
