set -u
echo "sending to $TO"
