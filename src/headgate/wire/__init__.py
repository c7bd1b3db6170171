"""The wire: what travels between the server and its clients, as types. Both sides import it; it imports only the core.

Numbers: instants are seconds since 1970 (UTC) with milliseconds as the fraction, durations are seconds, sizes are
bytes: what was submitted comes back in the same form. Fields that are not set are left out.
"""
