"""Trainings on generated scenarios of a family."""
