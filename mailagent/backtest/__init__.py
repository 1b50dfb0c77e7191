"""Asks another model or prompt what it would have done about answered mail. Sends nothing to customers."""
