<?php

/** The job steady of ../../robust.py: $write writes to the database. */
function steady(int|string $n, int $try, callable $write): void
{
    static $revision, $leak = [];
    $revision ??= file_get_contents(getenv('REVISION'));
    $say = fn (string $what) => file_put_contents(getenv('STEADY'), "$n $what $try ".getmypid()." $revision\n", FILE_APPEND);
    $say('begins');
    usleep(10000);
    $leak[] = str_repeat('x', 1 << 20);
    $write();
    $say('ends');
}
