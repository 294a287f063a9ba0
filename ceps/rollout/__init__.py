"""From a plan to running servers: ordered actions, manifests for Kubernetes, and splits that would pay."""
