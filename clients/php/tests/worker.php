<?php

// The stream program of the tests. DSN is PDO's; with MYSQLI it is mysqli that connects.
require __DIR__ . '/../src/Hipq.php';

use Hipq\{Client, GiveUp, Job, Release, Retry};

date_default_timezone_set('Asia/Kolkata');
$db = connect(getenv('DSN'), getenv('MYSQLI') === '1');

function connect(string $dsn, bool $mysqli = false): PDO|mysqli
{
    if (!$mysqli) {
        return new PDO($dsn, str_starts_with($dsn, 'mysql') ? 'root' : null, null, [PDO::ATTR_TIMEOUT => 20]);
    }
    parse_str(strtr(substr($dsn, 6), ';', '&'), $to);
    return new mysqli($to['host'], 'root', '', $to['dbname'], (int) $to['port']);
}

function execute(PDO|mysqli $db, string $sql): void
{
    $db instanceof PDO ? $db->exec($sql) : $db->query($sql);
}

Client::run([
    'echo' => fn (Job $job) => $job->data,
    'describe' => fn (Job $job) => ['key' => $job->key, 'attempt' => $job->attempt, 'timeout' => (int) $job->timeout, 'queue' => $job->queue],
    'print' => function () {
        echo '{"id": 1, "outcome": "failed"}', "\n";
        fwrite(STDOUT, "{not a reply\n");
        passthru('echo "{nor this"');
        return 'printed';
    },
    'progress' => function (Job $job) {
        $job->progress(40.5, 'half of it — ½');
        usleep(1_500_000);
    },
    'give up' => fn () => throw new GiveUp('no such customer'),
    'retry' => fn (Job $job) => $job->attempt < 2 ? throw new Retry('busy', 0) : 'at last',
    'release' => fn (Job $job) => $job->attempt < 3 ? throw new Release(0) : 'released twice',
    'throw' => fn () => throw new LogicException('boom ' . str_repeat('ü', 600)),
    'nan' => fn () => NAN,
    'open' => function (Job $job) use ($db) {
        if ($job->attempt === 1) {
            execute($db, str_starts_with(getenv('DSN'), 'sqlite') ? 'BEGIN IMMEDIATE' : 'BEGIN');
            execute($db, "INSERT INTO notes VALUES ('lost')");
        }
        return $job->attempt;
    },
    'note' => function () use ($db) {
        execute($db, "INSERT INTO notes VALUES ('kept')");
    },
    'killed' => function (Job $job) use ($db) {
        if ($job->attempt === 1) {
            try {
                execute($db, 'KILL CONNECTION_ID()');
            } catch (Exception) {
            }
        }
        execute($db, "INSERT INTO notes VALUES ('after the kill')");
    },
    '*' => fn (Job $job) => "any: $job->type",
], $db);
