"""What pages are made of: style, cards, tables, charts and maps as text of HTML and SVG; knows no cost and no plan."""
