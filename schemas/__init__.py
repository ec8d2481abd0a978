"""Every table of the lake, declared once."""
