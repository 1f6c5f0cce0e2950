<?php

// Runs the shop on Laravel's database driver and on hipq, and compares. run.php [scenarios | commands | robust | sqlite | bench]...
declare(strict_types=1);

require __DIR__ . '/../../php/tests/framework.php';

$app = __DIR__ . '/app';
foreach (['bootstrap/cache', 'storage/framework', 'app'] as $folder) {
    mkdir("$dir/$folder", recursive: true);
}
file_put_contents("$dir/composer.json", '{}');
$env = ['SHOP_DIR' => $dir, 'DB_PORT' => $port, 'DB_DATABASE' => $database, 'HIPQ_CONFIG' => "$dir/hipq.yaml", 'HIPQ' => $hipq, 'HIPQ_TYPE' => getenv('HIPQ_TYPE') ?: '', 'QUEUE_CONNECTION' => 'hipq'];
foreach ([
    'trace (id INT AUTO_INCREMENT PRIMARY KEY, job VARCHAR(100) COLLATE utf8mb4_bin, note TEXT)', 'orders (id INT AUTO_INCREMENT PRIMARY KEY, number INT)',
    'jobs (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, queue VARCHAR(255), payload LONGTEXT, attempts TINYINT UNSIGNED, reserved_at INT UNSIGNED NULL, available_at INT UNSIGNED, created_at INT UNSIGNED, KEY (queue))',
    'failed_jobs (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, uuid VARCHAR(255) UNIQUE, connection TEXT, queue TEXT, payload LONGTEXT, exception LONGTEXT, failed_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)',
    'job_batches (id VARCHAR(255) PRIMARY KEY, name VARCHAR(255), total_jobs INT, pending_jobs INT, failed_jobs INT, failed_job_ids LONGTEXT, options MEDIUMTEXT NULL, cancelled_at INT NULL, created_at INT, finished_at INT NULL)',
    'cache (`key` VARCHAR(255) PRIMARY KEY, value MEDIUMTEXT, expiration INT)', 'cache_locks (`key` VARCHAR(255) PRIMARY KEY, owner VARCHAR(255), expiration INT)',
] as $table) {
    $root->exec("CREATE TABLE $table");
}
function config(int $processes, int $ahead = 0): void
{
    global $dir, $app, $host, $port, $database;
    $type = getenv('HIPQ_TYPE') ?: '*';
    $env = json_encode(array_values(array_map(fn ($name) => "$name={$GLOBALS['env'][$name]}", array_diff(array_keys($GLOBALS['env']), ['HIPQ_CONFIG']))), JSON_UNESCAPED_SLASHES);
    $slots = $processes * (1 + $ahead);
    file_put_contents("$dir/hipq.yaml", <<<YAML
        name: shop
        database: {driver: mysql, dsn: "root@tcp($host:$port)/$database"}
        worker: {concurrency: $slots, grace: 2s}
        timeout: 70s # queue:work ends a job after 60 s
        retry: {attempts: 1000000, delay: 0s, jitter: 0} # Laravel counts the tries
        queues:
          - name: default
            job_types: [{name: "$type", handler: &artisan {stream: [php, $app/artisan, "queue:work", hipq, --sleep=0], dir: $dir, processes: $processes, ahead: $ahead, env: $env}}]
          - name: emails
            job_types: [{name: "$type", handler: *artisan}]
        YAML);
}

config(2);
hipq('init');
$stages = array_slice($argv, 1) ?: ['scenarios', 'commands', 'robust', 'sqlite'];

/** @return list<string> the failed jobs, as Laravel lists them */
function failures(string $connection): array
{
    global $app, $env;
    [, $said] = run(['php', "$app/artisan", 'queue:failed'], $env + ['QUEUE_CONNECTION' => $connection]);
    preg_match_all('/\|\s+[0-9a-f-]{36}\s+\| \S+\s+\| (\S+)\s+\| (\S+)\s+\|/', $said, $found, PREG_SET_ORDER);
    $list = array_map(fn ($row) => "$row[1] $row[2]", $found);
    sort($list);
    return $list;
}

if (in_array('scenarios', $stages, true)) {
    foreach (['database', 'hipq'] as $driver) {
        foreach (['trace', 'orders', 'cache', 'cache_locks', 'job_batches'] as $table) {
            $root->exec("TRUNCATE $table");
        }
        $env['QUEUE_CONNECTION'] = $driver;
        [$code, $said] = run(['php', "$app/scenarios.php"], $env);
        check($code === 0, "$driver: the scenarios are dispatched $said");
        $work = ['php', "$app/artisan", 'queue:work', 'database', '--queue=default,emails', '--stop-when-empty', '--sleep=0'];
        $begin = microtime(true);
        $good = $driver === 'database'
            ? drain(fn () => array_map('finish', [start($work, $env), start($work, $env)]), fn () => (int) query('SELECT COUNT(*) FROM jobs WHERE reserved_at IS NOT NULL OR available_at < UNIX_TIMESTAMP() + 20')[0])
            : drain(fn () => hipq('work'), fn () => live('default', 'emails'));
        check($good, sprintf('%s: all that is due has run, in %.0f s', $driver, microtime(true) - $begin));
        $traces[$driver] = traces();
        $failures[$driver] = failures($driver);
    }
    compare($traces['database'], array_values(array_filter($traces['hipq'], fn ($line) => !str_starts_with($line, 'leaks'))), 'the traces on hipq are those on the database driver');
    compare($failures['database'], array_values(array_filter($failures['hipq'], fn ($line) => !str_contains($line, 'Leaks'))), 'the failed jobs too');
    check(array_values(array_filter($traces['hipq'], fn ($line) => str_starts_with($line, 'leaks'))) === ['leaks: failed MaxAttemptsExceededException: App\Leaks has been attempted too many times or run too long. The job may have previously timed out.'],
        'a job that leaves a transaction open is retried, and what it did is undone');
    $left = array_map(fn ($row) => "$row", query("SELECT CONCAT(job_type, ' ', state) FROM shop_default WHERE live = 1 ORDER BY 1"));
    check($left === ['App\Limited retry', 'App\Limited retry', 'App\Plain initial'], 'the jobs that are due later wait: ' . implode(', ', $left));
}

if (in_array('commands', $stages, true)) {
    $artisan = function (string ...$arguments) use ($app, &$env) {
        [$code, $said] = run(['php', "$app/artisan", ...$arguments], ['QUEUE_CONNECTION' => 'hipq'] + $env);
        return trim("$code $said");
    };
    foreach (query("SELECT id FROM shop_default WHERE live = 1 OR status = 'failed'") as $id) {
        hipq('dismiss', 'default', '--all', '--yes');
        hipq('cancel', 'default', '--all', '--yes');
        break;
    }
    $root->exec('TRUNCATE trace');
    run(['php', "$app/scenarios.php", 'failing'], ['QUEUE_CONNECTION' => 'hipq'] + $env);
    hipq('work');
    [$uuid, $other] = query("SELECT job_key FROM shop_default WHERE status = 'failed' ORDER BY id");
    check(count(failures('hipq')) === 3, 'queue:failed lists 3 jobs');
    preg_match('/\| (\d{4}-\d\d-\d\d [\d:]+) +\|/', $artisan('queue:failed'), $at);
    check(abs(date_create($at[1] ?? '@0', timezone_open('Europe/Berlin'))->getTimestamp() - time()) < 300, "with the application's time");
    check(str_contains($artisan('queue:retry', $uuid), 'pushed back'), 'queue:retry pushes a job');
    check(count(failures('hipq')) === 2 && count(hipq('failures', '--json')) > 0, 'which is no failure any more');
    hipq('work');
    check(count(failures('hipq')) === 3, 'until it has failed again');
    check(query("SELECT note FROM trace WHERE job = 'one try 1'") === array_merge(...array_fill(0, 2, ['try 1', 'failed RuntimeException: no connection to the mail server'])), 'as attempt 1');
    check(str_contains($artisan('queue:forget', $other), 'deleted'), 'queue:forget');
    check(str_contains($artisan('queue:forget', 'nosuch'), 'No failed job'), 'queue:forget of none');
    check(count(failures('hipq')) === 2, 'leaves 2');
    check(str_contains($artisan('queue:monitor', 'hipq:default,hipq:emails', '--max=2'), '| default | 2'), 'queue:monitor: ' . $artisan('queue:monitor', 'hipq:default'));
    check(str_contains($artisan('queue:clear', 'hipq', '--force'), 'Cleared 2 jobs'), 'queue:clear cancels what waits');
    check(query('SELECT COUNT(*) FROM shop_default WHERE live = 1')[0] == 0, 'and nothing waits');
    check(str_starts_with($artisan('queue:flush'), '0') && failures('hipq') === [], 'queue:flush');
    check(str_starts_with($artisan('queue:work', 'hipq'), '64 queue:work hipq is started by `hipq work`'), 'queue:work hipq by hand says who starts it');
}

if (in_array('robust', $stages, true)) {
    robust(600, fn ($count) => run(['php', "$app/scenarios.php", 'many', (string) $count], ['QUEUE_CONNECTION' => 'hipq'] + $env), 'queue:work',
        fn () => run(['php', "$app/artisan", 'queue:restart'], $env));
    terminate(fn () => run(['php', "$app/scenarios.php", 'slow', '2'], ['QUEUE_CONNECTION' => 'hipq'] + $env));
}

if (in_array('sqlite', $stages, true)) {
    config(2);
    $yaml = preg_replace('/^database: .*$/m', "database: {driver: sqlite, path: $dir/shop.db}", file_get_contents("$dir/hipq.yaml"));
    file_put_contents("$dir/hipq.yaml", str_replace('"DB_PORT=', "\"DB_SQLITE=$dir/shop.db\", \"DB_PORT=", $yaml));
    $sqlite = new PDO("sqlite:$dir/shop.db", options: [PDO::ATTR_TIMEOUT => 20]);
    hipq('init');
    foreach (['trace (id INTEGER PRIMARY KEY, job TEXT, note TEXT)', 'cache (key TEXT PRIMARY KEY, value TEXT, expiration INTEGER)'] as $table) {
        $sqlite->exec("CREATE TABLE $table");
    }
    [$code, $said] = run(['php', "$app/scenarios.php", 'many', '50'], ['DB_SQLITE' => "$dir/shop.db", 'QUEUE_CONNECTION' => 'hipq'] + $env);
    run(['php', "$app/scenarios.php", 'failing'], ['DB_SQLITE' => "$dir/shop.db", 'QUEUE_CONNECTION' => 'hipq'] + $env);
    hipq('work');
    check($sqlite->query("SELECT COUNT(*) FROM trace WHERE job LIKE 'many %'")->fetchColumn() == 50, "50 jobs on SQLite $said");
    $env['DB_SQLITE'] = "$dir/shop.db";
    check(count(failures('hipq')) === 3, 'queue:failed on SQLite');
    run(['php', "$app/artisan", 'queue:flush'], $env);
    check(failures('hipq') === [], 'queue:flush on SQLite');
    check(str_contains(run(['php', "$app/artisan", 'queue:clear', 'hipq', '--force'], $env)[1], 'Cleared 2'), 'queue:clear on SQLite');
    unset($env['DB_SQLITE']);
}

if (in_array('bench', $stages, true)) {
    $jobs = (int) (getenv('JOBS') ?: 6000);
    foreach ([1, 4] as $processes) {
        foreach (['database', 'hipq', 'hipq, 7 ahead'] as $way) {
            [$driver] = explode(',', $way);
            config($processes, $way === $driver ? 0 : 7);
            run(['php', "$app/scenarios.php", 'quick', (string) $jobs], ['QUEUE_CONNECTION' => $driver] + $env);
            $work = ['php', "$app/artisan", 'queue:work', 'database', '--stop-when-empty', '--sleep=0', '--quiet'];
            $rate[$way] = measure("$way, $processes processes", $jobs, $driver === 'hipq' ? fn () => hipq('work')
                : fn () => array_map('finish', array_map(fn () => start($work, $env), range(1, $processes))));
            check($driver !== 'hipq' || live('default') === 0, sprintf('%.2f times the database driver', $rate[$way] / $rate['database']));
        }
    }
}
exit($failed ? 1 : 0);
