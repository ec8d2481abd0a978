"""The recorder's C part: sources, and libtracelake_shim.so where a compiler was there at build time."""
