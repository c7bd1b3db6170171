"""The HTTP and WebSocket API: checks who asks, makes commands and questions of requests, answers after the commit.

No rule of scheduling may enter here: whatever is allowed or refused is for the core to say.
"""
