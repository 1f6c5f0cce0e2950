# shellcheck shell=bash
# What .ci/with-mariadb, .ci/with-mysql, .ci/with-galera and .ci/with-group have in common: servers that live as long as a command.
# The scripts source it. It takes the options from the arguments: --durable, --keep, and --server=OPTION, which goes into $options.
# If the variable that $given names is set, there are such servers already, and the command runs with them.

say() { echo "${0##*/}: $*" >&2; }

# shellcheck disable=SC2034 # the scripts ask for them
durable='' keep=() options=()
while [[ ${1:-} == --durable || ${1:-} == --keep || ${1:-} == --server=* ]]; do
  case $1 in
    --durable) durable=1 ;;
    --keep) keep=(keep) ;;
    *) options+=("${1#--server=}") ;;
  esac
  shift
done
if [[ $# == 0 || $1 == -* ]]; then say "usage: $0 [--durable] [--keep] [--server=OPTION]... COMMAND..." && exit 64; fi
if [[ ${!given:-} ]]; then exec "$@"; fi

PATH=$PATH:/usr/sbin:/usr/local/sbin # where Debian keeps servers, but not in everybody's PATH

dir=$(mktemp -d) servers=() command=''

# shellcheck disable=SC2317 # the traps call it
cleanup() {
  local status=$? server
  trap '' HUP INT TERM # nothing may cut this short
  if [[ $command ]]; then kill -KILL -- "-$command" 2>/dev/null || true; fi # what COMMAND left in its process group
  for server in ${servers[@]+"${servers[@]}"}; do
    kill -0 "$server" 2>/dev/null || report "a server ended before its time"
    kill -KILL -- "-$server" 2>/dev/null || true # its data is thrown away: nothing needs an orderly shutdown
    wait "$server" 2>/dev/null || true
  done
  rm -rf "$dir"
  exit "$status"
}
# shellcheck disable=SC2317
# The first signal is passed on, so that COMMAND can end its own way; the next one ends everything.
on_signal() {
  trap 'exit 130' HUP INT TERM
  [[ $command ]] || exit "$2"
  kill -s "$1" -- "-$command" 2>/dev/null || true
}
trap cleanup EXIT
trap 'on_signal HUP 129' HUP
trap 'on_signal INT 130' INT
trap 'on_signal TERM 143' TERM

report() { say "$1; the end of its log:" && tail -n 40 "$dir"/log* >&2; }

# free_ports N: Go is there in any case, and can ask the system for free ports; servers take port 0 for 3306
free_ports() {
  cat >"$dir/ports.go" <<'GO'
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	for range os.Args[1:] {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		fmt.Println(l.Addr().(*net.TCPAddr).Port)
	}
}
GO
  # shellcheck disable=SC2046
  (cd "$dir" && GOFLAGS='' GOWORK=off go run ports.go $(seq "$1") 2>log)
}

# start LOG SERVER...: 0 when the server is ready, 1 when it ended
start() {
  local log=$1 server deadline=$((SECONDS + 120))
  shift
  set -m # a process group of its own, which a Ctrl-C at the terminal does not reach
  "$@" </dev/null >"$log" 2>&1 &
  server=$!
  set +m
  servers+=("$server")
  until grep -q 'd: ready for connections' "$log"; do # the server itself, not the cluster that it joins
    if ! kill -0 "$server" 2>/dev/null; then
      servers=("${servers[@]:0:${#servers[@]}-1}")
      return 1
    fi
    if ((SECONDS > deadline)); then report "a server is not ready after two minutes" && exit 1; fi
    sleep 0.05
  done
}

# keep SERVER...: runs it, and runs it again when it was killed; with the options in $first, then with those in $again
# shellcheck disable=SC2317 # start calls it
keep() {
  local status how=(${first[@]+"${first[@]}"})
  trap - EXIT
  while status=0; do
    "$@" ${how[@]+"${how[@]}"} &
    wait $! || status=$?
    if [[ $status != 137 ]]; then return; fi
    how=(${again[@]+"${again[@]}"})
  done
}

# start_one SERVER...: starts it on a free port, which is in $port then
start_one() {
  local attempt
  for attempt in 1 2 3 4 5; do
    port=$(free_ports 1) || { report "no free port" && exit 1; }
    if start "$dir/log" ${keep[@]+"${keep[@]}"} "$@" --port="$port" --bind-address=127.0.0.1 --socket="$dir/sock" --pid-file="$dir/pid" \
      --max-connections=500 ${options[@]+"${options[@]}"}; then return; fi
    # Somebody else may have taken the port in between; any other reason will not go away.
    if [[ $attempt == 5 ]] || ! grep -qi 'address already in use' "$dir/log"; then report "the server did not start" && exit 1; fi
  done
}

# beside COMMAND...: runs it, and ends as it does. In the background, since a trap waits for a foreground command to end; in a
# process group of its own, so that all of it can be told to end.
beside() {
  local status=0
  set -m
  "$@" </dev/null &
  command=$!
  set +m
  # wait also returns when a signal came in, while COMMAND may still be winding up
  wait "$command" || status=$?
  while kill -0 "$command" 2>/dev/null; do
    status=0
    wait "$command" || status=$?
  done
  exit "$status"
}
