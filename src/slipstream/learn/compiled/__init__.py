"""Collection, losses and gradients in compiled code."""
