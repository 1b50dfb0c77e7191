"""Pages for those who run the shop: what is to be paid, and how it goes."""
