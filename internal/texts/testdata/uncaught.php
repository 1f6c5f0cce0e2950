<?php
function send(string $to): void
{
    throw new RuntimeException("no route to $to");
}
echo "sending\n";
send('example.org');
