<?php

// Runs the shop on Symfony's Doctrine transport and on hipq, and compares. run.php [scenarios | robust | bench]...
declare(strict_types=1);

require __DIR__ . '/../../php/tests/framework.php';

$app = __DIR__ . '/app';
$env = ['SHOP_DIR' => $dir, 'DB_PORT' => $port, 'DB_DATABASE' => $database, 'HIPQ_TYPE' => getenv('HIPQ_TYPE') ?: '', 'QUEUE' => 'hipq', 'HIPQ_CONFIG' => "$dir/hipq.yaml"];
$root->exec('CREATE TABLE trace (id INT AUTO_INCREMENT PRIMARY KEY, job VARCHAR(100) COLLATE utf8mb4_bin, note TEXT)');
$console = ['php', ...(getenv('INCLUDE') ? ['-d', 'include_path=' . getenv('INCLUDE')] : []), "$app/console"];

function config(int $processes, int $ahead = 0): void
{
    global $dir, $console, $host, $port, $database, $env;
    $type = getenv('HIPQ_TYPE') ?: '*';
    $list = json_encode(array_values(array_map(fn ($name) => "$name={$env[$name]}", array_diff(array_keys($env), ['HIPQ_CONFIG']))), JSON_UNESCAPED_SLASHES);
    $stream = fn (string $transport) => '{stream: ' . json_encode([...$console, 'messenger:consume', $transport, '--sleep=0'], JSON_UNESCAPED_SLASHES) . ", dir: $dir, processes: $processes, ahead: $ahead, env: $list}";
    $slots = $processes * (1 + $ahead);
    file_put_contents("$dir/hipq.yaml", <<<YAML
        name: shop
        database: {driver: mysql, dsn: "root@tcp($host:$port)/$database"}
        worker: {concurrency: $slots, grace: 2s}
        timeout: 60s
        retry: {attempts: 8, delay: 0s, jitter: 0} # Messenger counts the retries
        queues:
          - name: default
            job_types: [{name: "$type", handler: {$stream('default')}}]
          - name: emails
            job_types: [{name: "$type", handler: {$stream('emails')}}]
        YAML);
}

config(1);
hipq('init');
$stages = array_slice($argv, 1) ?: ['scenarios', 'robust'];

if (in_array('scenarios', $stages, true)) {
    foreach (['doctrine', 'hipq'] as $transport) {
        $root->exec('TRUNCATE trace');
        $env['QUEUE'] = $transport;
        exec('rm -rf ' . escapeshellarg("$dir/var"));
        $transport === 'doctrine' && run([...$console, 'messenger:setup-transports'], $env);
        [$code, $said] = run([...array_slice($console, 0, -1), "$app/scenarios.php"], $env);
        check($code === 0, "$transport: the scenarios are dispatched $said");
        $begin = microtime(true);
        $consume = [...$console, 'messenger:consume', 'default', 'emails', '--time-limit=2', '--sleep=0.1'];
        $good = $transport === 'doctrine'
            ? drain(fn () => finish(start($consume, $env)), fn () => (int) query('SELECT COUNT(*) FROM messages WHERE available_at < UTC_TIMESTAMP() + INTERVAL 20 SECOND')[0])
            : drain(fn () => hipq('work'), fn () => live('default', 'emails'));
        check($good, sprintf('%s: all that is due has run, in %.0f s', $transport, microtime(true) - $begin));
        $traces[$transport] = traces();
    }
    $only = ['keyed', 'leaks', 'throws and leaks'];
    $both = fn (array $lines) => array_values(array_filter($lines, fn ($line) => !in_array(explode(':', $line)[0], $only, true)));
    compare($traces['doctrine'], $both($traces['hipq']), "the traces on hipq are those on Doctrine's transport");
    $own = array_values(array_diff($traces['hipq'], $both($traces['hipq'])));
    check($own === ['keyed: a duplicate', 'keyed: runs 2 whole'], 'a key; transactions that are left open are rolled back: ' . implode(', ', $own));
    check(run([...array_slice($console, 0, -1), "$app/scenarios.php", 'count'], $env)[1] === '1', 'one message waits: that of tomorrow');
    $failures = query("SELECT CONCAT(attempt, ' ', error) FROM shop_default WHERE status = 'failed' ORDER BY id");
    compare(['3 RuntimeException: no connection to the mail server', '1 Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException: no such customer',
        '3 RuntimeException: in a transaction', '8 the message left a transaction open, which was rolled back', '3 RuntimeException: with an open transaction'], $failures, 'hipq has the failures');
}

if (array_intersect(['robust', 'bench'], $stages)) {
    exec('rm -rf ' . escapeshellarg("$dir/var"));
    $env['QUEUE'] = 'hipq';
    $dispatch = fn (string $what, int $count) => run([...array_slice($console, 0, -1), "$app/scenarios.php", $what, (string) $count], $env);
}
if (in_array('robust', $stages, true)) {
    robust(600, fn ($count) => $dispatch('many', $count), 'messenger:consume', fn () => run([...$console, 'messenger:stop-workers'], $env));
    config(2);
    terminate(fn () => $dispatch('slow', 2));
}

if (in_array('bench', $stages, true)) {
    $jobs = (int) (getenv('JOBS') ?: 2000);
    foreach ([1, 4] as $processes) {
        foreach (['doctrine', 'hipq', 'hipq, 7 ahead'] as $way) {
            [$transport] = explode(',', $way);
            config($processes, $way === $transport ? 0 : 7);
            exec('rm -rf ' . escapeshellarg("$dir/var"));
            $env['QUEUE'] = $transport;
            $transport === 'doctrine' && run([...$console, 'messenger:setup-transports'], $env);
            run([...array_slice($console, 0, -1), "$app/scenarios.php", 'quick', (string) $jobs], $env);
            $consume = [...$console, 'messenger:consume', 'default', '--sleep=0', '--quiet', '--limit=' . intdiv($jobs, $processes)];
            $rate[$way] = measure("$way, $processes processes", $jobs, $transport === 'hipq' ? fn () => hipq('work')
                : fn () => array_map('finish', array_map(fn () => start($consume, $env), range(1, $processes))));
            $left = $transport === 'hipq' ? live('default') : (int) query("SELECT COUNT(*) FROM messages WHERE delivered_at IS NULL OR delivered_at < '9999-12-31'")[0];
            check($transport !== 'hipq' || $left === 0, sprintf("%.2f times Doctrine's transport, %d messages left", $rate[$way] / $rate['doctrine'], $left));
        }
    }
}
exit($failed ? 1 : 0);
