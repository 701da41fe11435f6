"""Schemas of tables: what each column is, so that the inputs of all sites mean the same."""
