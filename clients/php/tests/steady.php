<?php

/** The job steady of ../../robust.py: $write writes to the database. Of ../../others.py, which sets SPAN, it takes 50 to 300 ms instead. */
function steady(int|string $n, int $try, callable $write): void
{
    static $revision, $leak = [];
    $revision ??= file_get_contents(getenv('REVISION'));
    $say = fn (string $what) => file_put_contents(getenv('STEADY'), "$n $what $try ".getmypid()." $revision ".microtime(true)."\n", FILE_APPEND);
    $say('begins');
    if (getenv('SPAN')) {
        usleep(50000 + $n * 7919 % 251 * 1000);
    } else {
        usleep(10000);
        $leak[] = str_repeat('x', 1 << 20);
        $write();
    }
    $say('ends');
}

/** Adds the jobs whose numbers ../../others.py writes, and tells it whether that failed. */
function feed(callable $add, callable $disconnect): void
{
    while (($n = fgets(STDIN)) !== false) {
        try {
            $add(trim($n));
            echo trim($n), " added\n";
        } catch (Throwable $e) {
            $disconnect();
            echo trim($n), " unsure\n";
        }
    }
}
