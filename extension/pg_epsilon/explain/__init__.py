"""Comparisons of released answers: is a difference real, or noise alone (dpxplain.md §5)?"""
