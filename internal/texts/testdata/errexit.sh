set -eu
trap 'rm -f part' EXIT
cp nowhere.txt part
mv part done
