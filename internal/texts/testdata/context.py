import json

try:
    json.loads("{")
except ValueError:
    try:
        open("/nonexistent/fallback.json")
    except OSError:
        undefined_name
