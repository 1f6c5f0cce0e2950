<?php

// What the tests of the frameworks have in common. HIPQ_TEST_HIPQ is the program, HIPQ_TEST_MYSQL_DSN a server, as root.
declare(strict_types=1);

$hipq = getenv('HIPQ_TEST_HIPQ') ?: 'hipq';
$failed = 0;

preg_match('/^root@tcp\((.*):(\d+)\)\/$/', (string) getenv('HIPQ_TEST_MYSQL_DSN'), $server) || exit("HIPQ_TEST_MYSQL_DSN is not set to root@tcp(HOST:PORT)/\n");
[, $host, $port] = $server;
$database = 'framework_' . bin2hex(random_bytes(4));
$root = new PDO("mysql:host=$host;port=$port;charset=utf8mb4", 'root');
$root->exec("CREATE DATABASE $database CHARACTER SET utf8mb4");
$root->exec("USE $database");
$dir = sys_get_temp_dir() . "/$database";
mkdir($dir);
register_shutdown_function(function () use ($root, $database, $dir) {
    $root->exec("DROP DATABASE $database");
    getenv('KEEP') ? print("kept $dir\n") : exec('rm -rf ' . escapeshellarg($dir));
});

function check(bool $good, string $what): void
{
    global $failed;
    $failed += $good ? 0 : 1;
    echo $good ? 'ok    ' : 'FAIL  ', $what, "\n";
}

/** @return list<string> the first columns of the rows */
function query(string $sql): array
{
    global $root;
    return $root->query($sql)->fetchAll(PDO::FETCH_COLUMN);
}

/**
 * Starts a program in the folder; what it prints goes to the file log.
 *
 * @param array<string, string> $env
 * @return resource
 */
function start(array $command, array $env = [])
{
    global $dir;
    return proc_open($command, [['file', '/dev/null', 'r'], ['file', "$dir/log", 'a'], ['file', "$dir/log", 'a']], $pipes, $dir, $env + getenv());
}

/** Waits for it and returns its exit code. */
function finish($process): int
{
    while (($status = proc_get_status($process))['running']) {
        usleep(5000);
    }
    return $status['signaled'] ? -$status['termsig'] : $status['exitcode'];
}

/** @return array{int, string} exit code and output */
function run(array $command, array $env = []): array
{
    global $dir;
    $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes, $dir, $env + getenv());
    $said = stream_get_contents($pipes[1]);
    return [proc_close($process), $said];
}

/** @return list<array<string, mixed>> the lines of JSON that hipq prints */
function hipq(string ...$arguments): array
{
    global $hipq;
    [$code, $said] = run([$hipq, ...$arguments]);
    $code === 0 || $arguments[0] === 'work' || exit('hipq ' . implode(' ', $arguments) . " exits with $code: $said\n");
    return array_values(array_filter(array_map(fn ($line) => json_decode($line, true), explode("\n", $said))));
}

/** Runs $tick until $left() is 0, and returns whether that took less than the time. */
function drain(callable $tick, callable $left, int $seconds = 120): bool
{
    for ($end = time() + $seconds; time() < $end; usleep(100_000)) {
        $tick();
        if ($left() === 0) {
            return true;
        }
    }
    return false;
}

/** The jobs of hipq's queues that are due soon or run. */
function live(string ...$queues): int
{
    return array_sum(array_map(fn ($queue) => (int) query("SELECT COUNT(*) FROM shop_$queue WHERE live = 1 AND scheduled_run_time < UTC_TIMESTAMP() + INTERVAL 20 SECOND")[0], $queues));
}

/** @return list<string> what the jobs wrote, job by job */
function traces(): array
{
    return query("SELECT CONCAT(job, ': ', note) FROM trace ORDER BY job, id");
}

/** Compares the traces line by line. */
function compare(array $want, array $got, string $what): void
{
    for ($n = 0, $differ = 0; $n < max(count($want), count($got)); $n++) {
        if (($want[$n] ?? null) !== ($got[$n] ?? null)) {
            $differ++;
            echo "line $n: ", $want[$n] ?? '(none)', ' | ', $got[$n] ?? '(none)', "\n";
        }
    }
    check($differ === 0 && $want, "$what: " . count($want) . ' lines');
}

/** @return list<int> the programs that hipq has started for the framework's worker */
function programs(string $worker): array
{
    global $dir;
    return array_values(array_filter(array_map(fn ($path) => (int) basename($path), glob('/proc/[0-9]*')),
        fn ($pid) => @readlink("/proc/$pid/cwd") === $dir && str_contains((string) @file_get_contents("/proc/$pid/cmdline"), $worker)));
}

/** Disturbs workers while they do the jobs that $dispatch adds: each notes "many N". */
function robust(int $count, callable $dispatch, string $worker, callable $deploy): void
{
    global $root, $database, $hipq;
    $root->exec('TRUNCATE trace');
    $root->exec('DELETE FROM shop_default');
    $dispatch($count);
    $done = fn () => (int) query("SELECT COUNT(*) FROM shop_default WHERE status = 'finished'")[0];
    $disturbances = [
        'TERM to hipq work' => fn (int $pid) => posix_kill($pid, SIGTERM),
        'SIGKILL of a program' => fn () => array_map(fn ($pid) => posix_kill($pid, SIGKILL), array_slice(programs($worker), 0, 1)),
        'SIGKILL of hipq work' => fn (int $pid) => posix_kill($pid, SIGKILL),
        'all connections killed' => function () use ($database) {
            foreach (query("SELECT id FROM information_schema.processlist WHERE db = '$database' AND id <> CONNECTION_ID()") as $id) {
                try {
                    query("KILL $id");
                } catch (PDOException) { // it has ended
                }
            }
        },
        'a deployment' => $deploy,
    ];
    foreach ($disturbances as $what => $disturb) {
        $before = $done();
        $tick = start([$hipq, 'work']);
        $pid = proc_get_status($tick)['pid'];
        drain(fn () => null, fn () => $done() < $before + intdiv($count, 12) ? 1 : 0, 30);
        $programs = programs($worker);
        $disturb($pid);
        usleep(700_000);
        $what === 'a deployment' && check($programs && !array_intersect($programs, programs($worker)), 'a deployment ends the programs, and others go on');
        $what === 'a deployment' || posix_kill($pid, SIGTERM);
        $status = finish($tick);
        echo "      $what after ", $done(), " jobs: hipq work ended with $status\n";
    }
    check(drain(fn () => hipq('work'), fn () => live('default')), 'all is done afterwards');
    $ran = query("SELECT COUNT(*) FROM (SELECT job FROM trace WHERE job LIKE 'many %' AND note NOT LIKE 'failed%' GROUP BY job) AS t")[0];
    check((int) $ran === $count, "$ran of $count jobs ran");
    check($done() === $count, $done() . ' jobs finished, none failed: ' . implode(', ', query("SELECT error FROM shop_default WHERE status <> 'finished'")));
    check(query("SELECT note FROM trace WHERE note LIKE 'failed%'") === [], 'no job was told that it has failed');
    [$attempts] = query('SELECT SUM(attempt) FROM shop_default');
    $ends = query("SELECT CONCAT(error, ': ', COUNT(*)) FROM shop_activity WHERE kind = 'job' AND state = 'error' AND queue = 'default' AND job_id IN (SELECT id FROM shop_default) GROUP BY error");
    check((int) $attempts - $count === array_sum(array_map(fn ($line) => (int) substr(strrchr($line, ' '), 1), $ends)), "$attempts attempts; each other one is explained: " . implode(', ', $ends));
}

/** Ends a worker with two jobs in hand: the first one, of 3 s, is done before the KILL, and the other one, of 8 s, is not. */
function terminate(callable $dispatch): void
{
    global $root, $hipq;
    $root->exec('TRUNCATE trace');
    $root->exec('DELETE FROM shop_default');
    $dispatch();
    $tick = start([$hipq, 'work']);
    drain(fn () => null, fn () => count(traces()) < 2 ? 1 : 0, 30);
    posix_kill(proc_get_status($tick)['pid'], SIGTERM);
    finish($tick);
    $notes = fn () => query('SELECT note FROM trace ORDER BY job, id');
    check($notes() === ['begins 1', 'ends 1', 'begins 1'], 'TERM: ' . implode(', ', traces()));
    check(query('SELECT status FROM shop_default ORDER BY id')[0] === 'finished', 'a job that is done before the KILL has finished');
    hipq('work');
    check($notes() === ['begins 1', 'ends 1', 'begins 1', 'begins 1', 'ends 1'], 'the other one begins again, and it is still its first try: ' . implode(', ', traces()));
    check(query("SELECT CONCAT(attempt, ' ', status) FROM shop_default ORDER BY id") === ['1 finished', '2 finished'], 'both have finished');
}

/** How many jobs a second: $work runs all with this many processes. */
function measure(string $what, int $count, callable $work): float
{
    $begin = microtime(true);
    $work();
    $rate = $count / (microtime(true) - $begin);
    printf("      %-30s %6.0f jobs/s\n", $what, $rate);
    return $rate;
}
