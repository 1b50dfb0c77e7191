"""Every run replayed from every step, in every way there is: paid once, written once, links work."""
