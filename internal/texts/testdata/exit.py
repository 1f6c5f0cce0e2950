import sys, traceback

try:
    {}["order"]
except KeyError:
    traceback.print_exc()
for n in range(20):
    print("tried mirror", n)
sys.exit("no mirror is up")
