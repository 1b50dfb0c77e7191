"""Pages for those who run the shop: what waits to be paid, and how it goes."""
