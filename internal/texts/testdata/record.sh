#!/bin/sh
# Runs each program here for which there is an interpreter, and keeps what it prints, on both of its outputs, in NAME.printed,
# and then its exit status. They run in /srv/shop, so that no other path gets into the outputs. As root: ./record.sh
set -eu
cd "$(dirname "$0")"
here=$PWD
mkdir -p /srv/shop
cp -- *.php *.py *.rb *.js *.mjs *.java *.go *.sh *.pl *.cs /srv/shop
cd /srv/shop
record() { # PROGRAM COMMAND…
	program=$1
	shift
	command -v "$1" >/dev/null || return 0
	status=0
	"$@" >"$here/$program.printed" 2>&1 </dev/null || status=$?
	echo "$program $status"
}
for p in *.php; do record "$p" php "$p"; done
for p in *.py; do record "$p" /usr/bin/python3 "$p"; done
for p in *.rb; do record "$p" ruby "$p"; done
for p in *.js *.mjs; do record "$p" node "$p"; done
for p in *.java; do javac "$p" && record "$p" java -cp . "${p%.java}"; done
for p in *.go; do go build -o "${p%.go}.bin" "$p" && record "$p" "./${p%.go}.bin"; done
for p in errexit.sh missing.sh unset.sh; do record "$p" bash "$p"; done
for p in *.pl; do record "$p" perl "$p"; done
for p in *.cs; do mcs "$p" && record "$p" mono "${p%.cs}.exe"; done
rm -r /srv/shop
