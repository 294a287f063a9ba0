"""From patterns to a plan: the planner that users call, plans as they are kept, their risk."""
