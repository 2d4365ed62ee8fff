"""Exporters: the analysis written in one format each.

One exporter a module; a module that is put here is found by itself (`catalogue`). Its form
is in `contract`.
"""
