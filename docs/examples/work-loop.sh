#!/bin/sh
# Starts hipq each minute, as cron does, until the container is told to stop.
trap 'trap "" TERM INT; kill -TERM 0; wait; exit 0' TERM INT
minute=0
while :; do
  hipq work --linger &
  if [ $((minute % 15)) -eq 5 ]; then hipq monitor & fi
  if [ $((minute % 1440)) -eq 60 ]; then hipq purge & fi
  minute=$((minute + 1))
  sleep 60 &
  wait $!
done
