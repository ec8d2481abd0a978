"""One short check on a real GPU of what stand-ins cannot show; see README.md here."""
