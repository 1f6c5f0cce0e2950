def lookup(order):
    return {"a": 1}[order]

try:
    lookup("b")
except KeyError as e:
    raise RuntimeError("no such order") from e
