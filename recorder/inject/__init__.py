"""The folder that tracelake-record puts on PYTHONPATH; it holds sitecustomize.py and nothing else to import."""
