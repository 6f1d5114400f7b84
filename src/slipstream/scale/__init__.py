"""Work that many processes or machines share: one small protocol, and Ray behind it."""
