"""An M/M/1 queue as a family of Slipstream: the worked example of docs/add-a-family.md."""
