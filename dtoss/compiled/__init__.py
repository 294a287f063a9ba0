"""How kernels are compiled and kept, and the instructions that numba lacks; nothing of the domain."""
