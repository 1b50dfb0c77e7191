"""Migrations beside a shop that goes on working: their locks, their deaths, and old code on them."""
