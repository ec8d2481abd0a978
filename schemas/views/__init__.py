"""Views: the questions that analysts start from. Each reads tables by their bare names."""
