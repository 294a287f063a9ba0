"""Indexes of subscriptions, built at once and mapped from files: grids by place, and by place and word."""
