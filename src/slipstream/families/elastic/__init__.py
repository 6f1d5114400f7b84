"""Elastic: jobs on GPUs of unlike kinds, which change the kind and the number of their GPUs from round to round."""
