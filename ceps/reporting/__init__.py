"""What a plan costs and saves, as numbers, charts and one page; nothing here plans."""
