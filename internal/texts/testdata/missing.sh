set -e
echo sending
sendmial ann@example.org
echo sent
