<?php

// Tests the client: HIPQ_TEST_HIPQ is the program, HIPQ_TEST_MYSQL_DSN a server, as root; without it only SQLite is tested.
declare(strict_types=1);

require __DIR__ . '/../src/Hipq.php';

use Hipq\{Client, DuplicateJob, HipqError, JobNotFound, Refused};

date_default_timezone_set('America/New_York');
$hipq = getenv('HIPQ_TEST_HIPQ') ?: 'hipq';
$failed = $checks = 0;

function same(mixed $want, mixed $got, string $what): void
{
    global $failed, $checks;
    $checks++;
    if ($want !== $got) {
        $failed++;
        fwrite(STDERR, "FAIL $what\n  want " . json_encode($want) . "\n  got  " . json_encode($got, JSON_PARTIAL_OUTPUT_ON_ERROR) . "\n");
    }
}

function throws(string $class, callable $call, string $what): ?Throwable
{
    try {
        $call();
    } catch (Throwable $e) {
        same($class, $e::class, "$what: " . $e->getMessage());
        return $e;
    }
    same($class, 'nothing', $what);
    return null;
}

/** @return list<array<string, mixed>> the lines of JSON that hipq prints */
function hipq(string $dir, string ...$arguments): array
{
    global $hipq;
    exec('cd ' . escapeshellarg($dir) . ' && ' . implode(' ', array_map('escapeshellarg', [$hipq, ...$arguments])) . ' 2>stderr.txt', $lines, $code);
    if ($code !== 0) {
        throw new RuntimeException("hipq " . implode(' ', $arguments) . " exits with $code: " . file_get_contents("$dir/stderr.txt"));
    }
    return array_map(fn ($line) => json_decode($line, true) ?? [$line], $lines);
}

function job(string $dir, int $id): array
{
    return hipq($dir, 'show', 'emails', (string) $id, '--json')[0];
}

/** @return list<string> what the activity says of a job */
function states(string $dir, int $id): array
{
    return array_column(hipq($dir, 'activity', '--queue', 'emails', '--job', (string) $id, '--json'), 'state');
}

/** Makes a folder with a config and its tables. */
function instance(string $driver, string $dsn, string $pdo, bool $mysqli): string
{
    $dir = sys_get_temp_dir() . '/hipq-php-' . bin2hex(random_bytes(6));
    mkdir($dir);
    register_shutdown_function(fn () => exec('rm -rf ' . escapeshellarg($dir)));
    $database = $driver === 'sqlite' ? '{driver: sqlite, path: hipq.db}' : "{driver: mysql, dsn: \"$dsn\"}";
    $types = implode("\n", array_map(fn ($type) => "      - {name: $type, handler: *php}",
        ['describe', 'print', 'progress', 'give up', 'retry', 'release', 'throw', 'nan', 'open', 'note', 'killed', 'other']));
    file_put_contents("$dir/hipq.yaml", <<<YAML
        name: shop
        database: $database
        worker: {concurrency: 1}
        retry: {attempts: 2, delay: 0s}
        queues:
          - name: emails
            job_types:
              - {name: echo, handler: &php {stream: [php, "{$_SERVER['TESTS']}/worker.php"], processes: 1, env: ["DSN=$pdo", "MYSQLI=" ]}}
        YAML . "\n$types\n      - {name: ask, async: true, handler: {exec: [\"true\"]}}\n");
    $yaml = str_replace(['env: ["DSN=' . $pdo . '", "MYSQLI=" ]'], ['env: ["DSN=' . $pdo . '", "MYSQLI=' . (int) $mysqli . '"]'], file_get_contents("$dir/hipq.yaml"));
    file_put_contents("$dir/hipq.yaml", $yaml);
    hipq($dir, 'init');
    return $dir;
}

function execute(PDO|mysqli $db, string $sql): void
{
    $db instanceof PDO ? $db->exec($sql) : $db->query($sql);
}

function rows(PDO|mysqli $db, string $sql): array
{
    $result = $db->query($sql);
    return $db instanceof PDO ? $result->fetchAll(PDO::FETCH_NUM) : $result->fetch_all();
}

/** What is tested on each connection. */
function test(string $name, PDO|mysqli $db, string $dir): void
{
    $sqlite = $db instanceof PDO && $db->getAttribute(PDO::ATTR_DRIVER_NAME) === 'sqlite';
    $client = new Client($db, 'shop', command: $GLOBALS['hipq'], config: "$dir/hipq.yaml");
    $begin = fn () => execute($db, $sqlite ? 'BEGIN IMMEDIATE' : 'START TRANSACTION');
    execute($db, 'DELETE FROM shop_emails');
    execute($db, 'DELETE FROM notes');

    // a transaction
    $begin();
    $client->push('emails', 'echo', key: 'rolled back');
    execute($db, 'ROLLBACK');
    $begin();
    $id = $client->push('emails', 'echo', ['order' => 4711, 'to' => 'ünï 😀 "\\\' ?:x', 'price' => 1.0], key: 'ключ "?\\', priority: -5, timeout: 30, weight: 2,
        windows: ['mon-sun 00:00-24:00'], shardKey: 'a');
    execute($db, 'COMMIT');
    $job = job($dir, $id);
    same([['order' => 4711, 'to' => 'ünï 😀 "\\\' ?:x', 'price' => 1.0], 'ключ "?\\'], [$job['job_data'], $job['job_key']], "$name: data and key");
    same(1, count(rows($db, 'SELECT id FROM shop_emails')), "$name: the rolled back job is gone");
    same([[-5, 30, 2, '["mon-sun 00:00-24:00"]', 'a']], array_map(fn ($r) => [(int) $r[0], (int) $r[1], (int) $r[2], $r[3], $r[4]],
        rows($db, "SELECT priority, timeout, throttle_factor, time_windows, shard_key FROM shop_emails WHERE id = $id")), "$name: options");

    // times
    $time = fn (int $id) => (new DateTimeImmutable(rows($db, "SELECT scheduled_run_time FROM shop_emails WHERE id = $id")[0][0], new DateTimeZone('UTC')))->format('U.u');
    $at = new DateTime('2030-07-01 12:00:00.123456', new DateTimeZone('Asia/Kolkata'));
    same('2030-07-01 06:30:00.123456', rows($db, 'SELECT scheduled_run_time FROM shop_emails WHERE id = ' . $client->push('emails', 'echo', at: $at))[0][0], "$name: at is UTC");
    foreach ([[90, 90], [0.25, 0.25], [new DateInterval('PT1H'), 3600], [-60, -60]] as [$in, $seconds]) {
        $off = $time($client->push('emails', 'echo', in: $in)) - microtime(true) - $seconds;
        same(true, abs($off) < 2, "$name: in $seconds s is off by $off s");
    }

    // duplicates
    $begin();
    $first = $client->push('emails', 'other', key: 'once');
    $e = throws(DuplicateJob::class, fn () => $client->push('emails', 'other', key: 'once'), "$name: a duplicate");
    same('queue emails: a live job of type other has the key once', $e?->getMessage(), "$name: what the error names");
    same($first, $client->push('emails', 'other', ['x' => 1], key: 'once', onDuplicate: 'ignore'), "$name: ignore");
    execute($db, 'COMMIT');
    same(true, $client->push('emails', 'other', key: 'new', onDuplicate: 'ignore') > $first, "$name: ignore without a duplicate");

    // many
    $begin();
    $jobs = (fn () => yield from array_map(fn ($n) => ['type' => 'other', 'data' => ['n' => $n, 'text' => str_repeat('é', $n % 7 * 500)], 'key' => "many-$n"] + ($n === 700 ? ['in' => 60] : []), range(1, 1200)));
    same(1200, $client->pushMany('emails', $jobs()), "$name: pushMany counts");
    same([['1200']], array_map(fn ($r) => [(string) $r[0]], rows($db, "SELECT COUNT(*) FROM shop_emails WHERE job_key LIKE 'many-%'")), "$name: pushMany");
    execute($db, 'ROLLBACK');
    same([['0']], array_map(fn ($r) => [(string) $r[0]], rows($db, "SELECT COUNT(*) FROM shop_emails WHERE job_key LIKE 'many-%'")), "$name: pushMany is in the transaction");
    throws(DuplicateJob::class, fn () => $client->pushMany('emails', [['type' => 'other', 'key' => 'twice'], ['type' => 'other', 'key' => 'twice']]), "$name: pushMany with a duplicate");
    same(0, $client->pushMany('emails', []), "$name: pushMany of none");
    throws(Error::class, fn () => $client->pushMany('emails', [['type' => 'other', 'kye' => 'x']]), "$name: an unknown option");

    // what is refused, whatever the session is
    $driver = $db instanceof PDO ? PDOException::class : mysqli_sql_exception::class;
    throws($driver, fn () => $client->push('emails', 'other', key: str_repeat('k', 256)), "$name: a long key");
    throws($driver, fn () => $client->push('emails', str_repeat('t', 256)), "$name: a long type");
    throws($driver, fn () => $client->push('emails', 'other', str_repeat('d', 1 << 20)), "$name: a MiB and two quotes");
    throws($driver, fn () => $client->push('emails', 'other', at: new DateTime('9999-06-01')), "$name: a late time");
    throws($driver, fn () => $client->push('emails', 'other', '', raw: true), "$name: an empty text");
    throws($driver, fn () => $client->push('nosuch', 'other'), "$name: an unknown queue");
    throws(HipqError::class, fn () => $client->push('emails', 'other', key: "\xff"), "$name: a key that is not UTF-8");
    throws(HipqError::class, fn () => $client->push('emails', 'other', "\xff", raw: true), "$name: raw data that is not UTF-8");
    throws(JsonException::class, fn () => $client->push('emails', 'other', "\xff"), "$name: data that is not UTF-8");
    foreach (['timeout' => 0, 'priority' => 1 << 31, 'weight' => -1, 'type' => '', 'key' => '', 'onDuplicate' => 'skip'] as $option => $value) {
        throws(HipqError::class, fn () => $client->push(...[$option => $value] + ['queue' => 'emails', 'type' => 'other']), "$name: $option $value");
    }

    // look and act
    $id = $client->push('emails', 'other', ['ünï' => 1], key: 'ключ', in: 3600, priority: 7);
    $job = $client->get('emails', $id);
    same([$id, 'other', 'ключ', '{"ünï":1}', 'initial', 7], [(int) $job['id'], $job['job_type'], $job['job_key'], $job['job_data'], $job['state'], (int) $job['priority']], "$name: get");
    same($id, (int) $client->get('emails', 'other', 'ключ')['id'], "$name: get by type and key");
    same([null, null], [$client->get('emails', 1 << 40), $client->get('emails', 'other', 'nosuch')], "$name: get of none");
    $client->reschedule('emails', $id, at: new DateTime('2031-01-01 12:00:00', new DateTimeZone('America/New_York')));
    same('2031-01-01 17:00:00', substr(rows($db, "SELECT scheduled_run_time FROM shop_emails WHERE id = $id")[0][0], 0, 19), "$name: reschedule at");
    $client->reschedule('emails', 'other', 'ключ', in: 60);
    same(true, abs($time($id) - microtime(true) - 60) < 3, "$name: reschedule in");
    if (!$sqlite) {
        $new = $client->push('emails', 'other', ['x' => 2], key: 'ключ', in: 30, onDuplicate: 'replace');
        same('{"x":2}', $client->get('emails', $new)['job_data'], "$name: replace");
        same(1, count(rows($db, "SELECT id FROM shop_emails WHERE job_type = 'other' AND live = 1 AND job_key = CONVERT(X'" . bin2hex('ключ') . "' USING utf8mb4)")), "$name: replace leaves one");
    }
    $client->cancel('emails', 'other', 'ключ');
    $last = $client->get('emails', 'other', 'ключ');
    same(['final', 'cancelled'], [$last['state'], $last['error']], "$name: cancel");
    throws(Refused::class, fn () => $client->cancel('emails', (int) $last['id']), "$name: cancel of a final job");
    throws(JobNotFound::class, fn () => $client->cancel('emails', 'other', 'nosuch'), "$name: cancel of none");
    [$fails, $again] = [$client->push('emails', 'give up'), $client->push('emails', 'give up')];
    [$ask, $refuse, $later, $soon] = array_map(fn ($key) => $client->push('emails', 'ask', key: $key), ['a', 'b', 'c', 'd']);
    hipq($dir, 'work');
    $client->dismiss('emails', $fails);
    same('closed', job($dir, $fails)['status'] ?? rows($db, "SELECT status FROM shop_emails WHERE id = $fails")[0][0], "$name: dismiss");
    $client->retry('emails', $again);
    same(1, count(rows($db, "SELECT id FROM shop_emails WHERE retry_of = $again AND live = 1")), "$name: retry adds a job");
    $client->answer('emails', 'ask', 'a', 'finished', ['receipt' => 17]);
    $client->answer('emails', 'ask', 'b', 'failed', error: 'no such customer');
    $client->answer('emails', 'ask', 'c', 'release', retryAfter: 3600, count: true);
    $client->answer('emails', 'ask', 'd', 'retry', error: 'busy', retryAfter: 60.5);
    throws(JobNotFound::class, fn () => $client->answer('emails', 'ask', 'nosuch', 'finished'), "$name: an answer for no job");
    same(['{"receipt":17}', 'no such customer', null, 'busy'], [$client->get('emails', $ask)['result'], ...array_map(fn ($id) => $client->get('emails', $id)['error'], [$refuse, $later, $soon])], "$name: answer");
    hipq($dir, 'work'); // on SQLite, a worker decides on the retry
    same(['retry', 'retry'], [$client->get('emails', $later)['state'], $client->get('emails', $soon)['state']], "$name: a released job runs again");
    foreach ([[$later, 3600], [$soon, 60.5]] as [$id, $after]) {
        same(true, abs($time($id) - microtime(true) - $after) < 5, "$name: answered, to run again in $after s");
    }
    same(['added', 'starting', 'released'], states($dir, $later), "$name: a release is no error");

    // the loop
    execute($db, 'DELETE FROM shop_emails');
    $ids = $want = [];
    $all = ['echo ünï 😀 "text"' => ['echo', 'ünï 😀 "text"'], 'echo 5' => ['echo', 5], 'echo list' => ['echo', [1, 2.5, null, true, ['a' => []]]], 'echo null' => ['echo', null]];
    foreach ($all as $what => [$type, $data]) {
        $ids[$what] = $client->push('emails', $type, $data);
        $want[$what] = ['final', $data, null, 1];
    }
    $ids['raw'] = $client->push('emails', 'echo', 'plain text', raw: true);
    $want['raw'] = ['final', 'plain text', null, 1];
    $left = 'the job left a transaction open, which was rolled back';
    foreach ([['print', 'printed', null, 1], ['give up', null, 'no such customer', 1], ['retry', 'at last', 'busy', 2], ['release', 'released twice', null, 3], ['nan', null, 'JsonException: Inf and NaN cannot be JSON encoded', 2],
        ['open', 2, $left, 2], ['note', null, null, 1], ['describe', ['key' => 'k', 'attempt' => 1, 'timeout' => 7, 'queue' => 'emails'], null, 1]] as [$type, $result, $error, $attempt]) {
        $ids[$type] = $client->push('emails', $type, key: $type === 'describe' ? 'k' : null, timeout: $type === 'describe' ? 7 : null);
        $want[$type] = ['final', $result, $error, $attempt];
    }
    $ids['throw'] = $client->push('emails', 'throw');
    $ids['progress'] = $client->push('emails', 'progress');
    if (!$sqlite) {
        $ids['killed'] = $client->push('emails', 'killed');
        $ids['after'] = $client->push('emails', 'note');
    }
    hipq($dir, 'work');
    foreach ($want as $what => [$state, $result, $error, $attempt]) {
        $job = job($dir, $ids[$what]);
        $got = $job['result'] ?? null;
        $got = is_string($got) ? json_decode($got, true) ?? $got : $got; // one that is no object is kept as text
        same([$state, $result, $attempt], [$job['state'], $got, $job['attempt']], "$name: run: $what");
        if ($error !== null && $job['error'] !== null) {
            same($error, $job['error'], "$name: the error of $what");
        }
    }
    same(['added', 'starting', 'released', 'starting', 'released', 'starting', 'finished'], states($dir, $ids['release']), "$name: run: a release is no error");
    $job = job($dir, $ids['throw']);
    same([true, 'final'], [str_starts_with($job['error'], 'LogicException: boom üü'), $job['state']], "$name: a long error");
    same([40, 'half of it — ½'], [job($dir, $ids['progress'])['progress'] ?? null, job($dir, $ids['progress'])['progress_note'] ?? null], "$name: progress");
    same($sqlite ? [['kept']] : [['after the kill'], ['kept'], ['kept']], rows($db, 'SELECT note FROM notes ORDER BY note'), "$name: what the jobs wrote");
}

// The folder of the tests, for the configs.
$_SERVER['TESTS'] = __DIR__;
$only = $argv[1] ?? '';

$dir = instance('sqlite', '', 'sqlite:' . '%DIR%/hipq.db', false);
file_put_contents("$dir/hipq.yaml", str_replace('%DIR%', $dir, file_get_contents("$dir/hipq.yaml")));
$sqlite = new PDO("sqlite:$dir/hipq.db", options: [PDO::ATTR_TIMEOUT => 20]);
$sqlite->exec('CREATE TABLE notes (note TEXT)');
test('sqlite', $sqlite, $dir);

if ($server = getenv('HIPQ_TEST_MYSQL_DSN')) {
    preg_match('/^(.*)@tcp\((.*):(\d+)\)\/$/', $server, $at);
    $database = 'php_' . bin2hex(random_bytes(4));
    $root = new PDO("mysql:host=$at[2];port=$at[3]", 'root');
    $root->exec("CREATE DATABASE $database CHARACTER SET latin1");
    register_shutdown_function(fn () => $root->exec("DROP DATABASE $database"));
    $pdo = "mysql:host=$at[2];port=$at[3];dbname=$database";
    $new = fn (string $set = '', array $options = [], string $charset = ';charset=utf8mb4') => new PDO($pdo . $charset, 'root', '', $options + [PDO::MYSQL_ATTR_INIT_COMMAND => $set ?: 'DO 0']);
    $quick = getenv('HIPQ_TEST_QUICK'); // one driver
    foreach ([false, true] as $mysqli) {
        $dirs[] = instance('mysql', "$server$database", $pdo, $mysqli);
    }
    $root->exec("CREATE TABLE $database.notes (note VARCHAR(50))");
    test('PDO, native', $new('', [PDO::ATTR_EMULATE_PREPARES => false]), $dirs[0]);
    $quick || test('PDO, emulated, another zone, not strict', $new("SET time_zone = '-05:00', sql_mode = ''", [PDO::ATTR_EMULATE_PREPARES => true]), $dirs[0]);
    $quick || test('PDO, latin1, NO_BACKSLASH_ESCAPES, ANSI_QUOTES', $new("SET NAMES latin1, sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'", [], ''), $dirs[0]);
    $quick || test('PDO, silent, unbuffered', $new('', [PDO::ATTR_ERRMODE => PDO::ERRMODE_SILENT, PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false]), $dirs[0]);
    $db = new mysqli($at[2], 'root', '', $database, (int) $at[3]);
    $quick || test('mysqli', $db, $dirs[1]);
    $db->query("SET NAMES latin1, time_zone = '+09:00', sql_mode = ''");
    mysqli_report(MYSQLI_REPORT_OFF);
    $quick || test('mysqli, latin1, not strict, no exceptions', $db, $dirs[1]);

    // an application that may only insert
    $root->exec("CREATE USER IF NOT EXISTS 'inserts'@'%'");
    $columns = 'job_type, job_data, job_key, shard_key, scheduled_run_time, priority, timeout, throttle_factor, time_windows';
    $root->exec("GRANT INSERT ($columns) ON $database.shop_emails TO 'inserts'@'%'");
    $client = new Client(new PDO($pdo, 'inserts'), 'shop');
    same(true, $client->push('emails', 'echo', ['a' => 1], in: 5, priority: 1) > 0, 'INSERT is the only right that push needs');
    same(2, $client->pushMany('emails', [['type' => 'echo'], ['type' => 'echo', 'at' => new DateTime()]]), 'and pushMany');
    $root->exec("DROP USER 'inserts'@'%'");
} else {
    echo "HIPQ_TEST_MYSQL_DSN is not set: only SQLite was tested\n";
}
echo "$checks checks, $failed failed\n";
exit($failed ? 1 : 0);
