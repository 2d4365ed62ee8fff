"""Judgements: one fault a module, found by walking the package."""
