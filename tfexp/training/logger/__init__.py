"""Mirrors of the record, one per file."""
