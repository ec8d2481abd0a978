"""The sections of a job page, a module each."""
