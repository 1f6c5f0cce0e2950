raise "the server said:\n550 no such user"
