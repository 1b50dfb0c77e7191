"""Commands to set the app up: ask for settings, check them, write a test mail to oneself."""
