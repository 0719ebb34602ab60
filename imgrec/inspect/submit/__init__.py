"""Submissions: write predictions in the format that a competition asks for."""
