"""The API's request handlers, one file a noun: each function turns a request into a call on the daemon, and the result
into an answer.
"""
