"""Strategies compared and a change priced, from a profile alone: no Spark, no client, no clock."""
