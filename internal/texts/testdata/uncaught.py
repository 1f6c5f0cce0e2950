def send(to):
    raise ConnectionError("no route to " + to)

print("sending", flush=True)
send("example.org")
