"""Attacks on Coffer as a host could make them. Test code: no release has it."""
