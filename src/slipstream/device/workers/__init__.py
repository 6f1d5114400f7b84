"""Worker processes of the cpu backend, their fork server and their protocol."""
