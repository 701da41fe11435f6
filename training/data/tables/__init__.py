"""Schemas of tables: what each column is, so that the inputs of all sites mean the same.

A table is read by one way: bytes, a sheet (text by column), decoded columns with a verdict on each cell, rows, and
inputs once the training rows are known. Options without a schema make one in memory.
"""
