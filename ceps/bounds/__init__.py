"""What no plan can beat, and the exact optimum of small problems."""
