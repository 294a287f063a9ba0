"""Files, manifests and the pointer: what is written, who may write, what may go and what is damaged; no queries."""
