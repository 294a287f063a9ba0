"""CEPS: place partitions on the fewest rented servers, and show what that saves."""

from ceps.patterns import Patterns
from ceps.patterns_file import read_patterns, write_patterns
from ceps.problem import InfeasibleError
from ceps.servers import ServerType, load_servers

__all__ = ["InfeasibleError", "Patterns", "ServerType", "load_servers", "read_patterns", "write_patterns"]
