<?php
declare(strict_types=1);
namespace Hipq;

// hipq's client for PHP 8.1 and newer: one file without dependencies. README.md shows how to use it.

class HipqError extends \RuntimeException {}
/** hipq refused the call, and changed nothing. The code is the number, such as 31001; on SQLite it is hipq's exit code. */
class Refused extends HipqError {}
class JobNotFound extends Refused {}
/** A live job has the type and the key. */
class DuplicateJob extends HipqError {}
/** A job's function throws it: the job has failed for good. */
class GiveUp extends \RuntimeException {}
/** A job's function throws it: an error; run again, not before $after seconds if given. */
class Retry extends \RuntimeException {
    public function __construct(string $message, public readonly int|float|null $after = null) { parent::__construct($message); }
}
/** A job's function throws it: no error; run again after $after seconds. It uses up no attempt unless $count is true. */
class Release extends \RuntimeException {
    public function __construct(public readonly int|float $after = 0, public readonly bool $count = false) { parent::__construct('released'); }
}

/** $data is what was pushed: JSON as arrays and scalars, other text as it is, null for nothing. $timeout is in seconds. */
final class Job {
    public function __construct(public readonly int $id, public readonly string $queue, public readonly string $type, public readonly string $key,
        public readonly mixed $data, public readonly int $attempt, public readonly int $interrupts, public readonly string $token,
        public readonly float $timeout, private readonly \Closure $say) {}
    public function progress(int|float $percent, ?string $note = null): void {
        ($this->say)(['id' => $this->id, 'token' => $this->token, 'progress' => $percent, 'note' => $note]);
    }
}

final class Client {
    private const JSON = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
    private const LEAST = ['priority' => -2147483647, 'timeout' => 1, 'throttle_factor' => 0]; // without strict mode, MySQL would change others
    /** $tables names a queue's table, if it isn't INSTANCE_QUEUE. On SQLite, methods that change a job run $command with $config. */
    public function __construct(private readonly \PDO|\mysqli $db, private readonly string $instance, private readonly array $tables = [],
        private readonly string $command = 'hipq', private readonly ?string $config = null) {}

    /** Adds a job in the connection's transaction and returns its id. The options are named arguments, those of row(). It is a plain
     *  INSERT, unless onDuplicate is "ignore", which returns the live job's id, or "replace", which is not for SQLite. */
    public function push(string $queue, string $type, mixed $data = null, string $onDuplicate = 'error', mixed ...$options): int {
        $row = self::row($type, $data, ...$options);
        $sqlite = self::isSQLite($this->db);
        in_array($onDuplicate, $sqlite ? ['error', 'ignore'] : ['error', 'ignore', 'replace'], true) || throw new HipqError("onDuplicate can't be $onDuplicate here");
        if ($sqlite || $onDuplicate === 'error') {
            $found = $this->insert($queue, [$row], $onDuplicate === 'error' ? '' : 'ON CONFLICT (job_type, job_key, live) DO UPDATE SET job_key = job_key RETURNING id');
            return (int) ($found[0]['id'] ?? ($this->db instanceof \PDO ? $this->db->lastInsertId() : $this->db->insert_id));
        }
        [$key, $data, $when] = [$row['job_key'] ?? null, $row['job_data'] ?? null, $row['scheduled_run_time'] ?? ''];
        unset($row['job_type'], $row['job_key'], $row['job_data'], $row['scheduled_run_time']);
        $row += ['on_duplicate' => $onDuplicate, str_ends_with($when, 's') ? 'in' : 'at' => $when ?: null];
        return (int) $this->call('job_submit', $queue, $type, $key, $data, $row)[0]['id'];
    }

    /** Adds jobs like ['type' => 'send', 'data' => …, 'key' => …] by as few INSERTs as their size allows, and returns how many. */
    public function pushMany(string $queue, iterable $jobs): int {
        [$size, $inserts] = [0, []];
        foreach ($jobs as $job) {
            $row = self::row(...$job);
            $size += 1000 + strlen($row['job_data'] ?? '');
            $inserts[intdiv($size, 500_000)][] = $row;
        }
        array_walk($inserts, fn ($rows) => $this->insert($queue, $rows));
        return array_sum(array_map('count', $inserts));
    }

    /** Returns a job by its id, or by type and key: the live one, else the newest. It is a row of the view INSTANCE_QUEUE$jobs. */
    public function get(string $queue, int|string $job, ?string $key = null): ?array {
        if (self::isSQLite($this->db)) {
            $where = is_int($job) ? "id = $job" : "job_type = {$this->sql($job)} AND job_key = {$this->sql($key)}";
            return $this->query("SELECT * FROM {$this->table($queue, '$jobs')} WHERE $where ORDER BY state = 'final', id DESC LIMIT 1")[0] ?? null;
        }
        $this->query('SET @hipq_results = @@character_set_results, character_set_results = utf8mb4');
        try {
            return $this->call('job_get', $queue, ...self::names($job, $key))[0] ?? null;
        } catch (JobNotFound) {
            return null;
        } finally {
            $this->query('SET character_set_results = @hipq_results');
        }
    }

    /** These four change a job that is named as for get(). */
    public function cancel(string $queue, int|string $job, ?string $key = null, bool $running = false): void {
        $this->change('cancel', $queue, $job, $key, ['running' => $running]);
    }
    public function retry(string $queue, int|string $job, ?string $key = null): void { $this->change('retry', $queue, $job, $key); }
    public function dismiss(string $queue, int|string $job, ?string $key = null): void { $this->change('dismiss', $queue, $job, $key); }
    public function reschedule(string $queue, int|string $job, ?string $key = null, ?\DateTimeInterface $at = null, int|float|\DateInterval $in = 0): void {
        $this->change('reschedule', $queue, $job, $key, $at === null ? ['in' => self::time($in)] : ['at' => self::time($at)]);
    }

    /** Ends a job that awaits its answer by "finished", "failed", "retry", or "release": run again, without an error. */
    public function answer(string $queue, string $type, string $key, string $outcome, mixed $result = null, ?string $error = null,
        int|float|null $retryAfter = null, ?bool $count = null): void {
        $result = $result === null ? null : json_encode($result, self::JSON);
        $options = self::given(['error' => $error, 'retry_after' => self::time($retryAfter), 'count' => $count]);
        $more = ['finished' => self::given(['data' => $result]), 'failed' => []][$outcome] ?? [$outcome => true];
        self::isSQLite($this->db) ? $this->change($outcome === 'finished' ? 'complete' : 'fail', $queue, $type, $key, $options + $more)
            : $this->call('job_answer', $queue, null, $type, $key, $outcome, $result, $options);
    }

    /** Is a `stream` program: calls the function of each job's type until standard input ends; "*" serves all other types. What the
     *  function returns is the result. If it leaves a transaction open on a connection, that is rolled back, and the job retried. */
    public static function run(array $functions, \PDO|\mysqli ...$connections): void {
        $say = self::redirect();
        $say(['ready' => true]);
        for ([$in, $lost] = [fopen('php://stdin', 'r'), false]; !$lost && ($line = fgets($in)) !== false;) {
            $line = json_decode($line, true, 20_000, JSON_THROW_ON_ERROR);
            $data = is_string($line['job_data']) ? json_decode($line['job_data'], true) ?? $line['job_data'] : $line['job_data'];
            $job = new Job($line['id'], $line['queue'], $line['job_type'], $line['job_key'], $data, $line['attempt'], $line['interrupts'] ?? 0,
                $line['token'], $line['timeout_ms'] / 1000, $say);
            try {
                $function = $functions[$job->type] ?? $functions['*'] ?? throw new GiveUp("there is no function for the job type $job->type");
                $reply = ['outcome' => 'finished', 'result' => $function($job)];
                json_encode($reply, self::JSON);
            } catch (GiveUp|Retry $e) {
                $reply = ['outcome' => $e instanceof Retry ? 'retry' : 'failed', 'error' => $e->getMessage(), 'retry_after' => self::time($e->after ?? null)];
            } catch (Release $e) {
                $reply = ['outcome' => 'release', 'retry_after' => self::time($e->after), 'count' => $e->count];
            } catch (\Throwable $e) {
                fwrite(STDERR, "$e\n");
                $reply = ['outcome' => 'retry', 'error' => $e::class . ': ' . substr($e->getMessage(), 0, 1000)];
                $lost = in_array(self::number($e), [1927, 2006, 2013, 4031], true); // the next program has a new connection
            }
            if (in_array(true, array_map(self::rollBack(...), $connections), true) && $reply['outcome'] === 'finished') {
                $reply = ['outcome' => 'retry', 'error' => 'the job left a transaction open, which was rolled back'];
            }
            $say(['id' => $job->id, 'token' => $job->token] + $reply);
        }
    }

    /** Sends what PHP prints to standard error; the function that it returns writes a line of JSON to the real standard output. */
    public static function redirect(): \Closure {
        $out = fopen('php://stdout', 'w');
        ini_set('display_errors', 'stderr');
        $toStandardError = new class extends \php_user_filter {
            public function filter($in, $out, &$consumed, bool $closing): int {
                for (; $bucket = stream_bucket_make_writeable($in); $consumed += $bucket->datalen) {
                    fwrite(STDERR, $bucket->data);
                }
                return PSFS_FEED_ME;
            }
        };
        stream_filter_register('hipq.stderr', $toStandardError::class) && stream_filter_append(STDOUT, 'hipq.stderr', STREAM_FILTER_WRITE);
        ob_start(fn (string $text): string => substr($text, (int) fwrite(STDERR, $text)), 1);
        return fn (array $line) => fwrite($out, json_encode(self::given($line), self::JSON | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
    }

    private static function rollBack(\PDO|\mysqli $db): bool {
        try { // on SQLite, PDO doesn't know of a transaction that SQL began; SET TRANSACTION is refused in one, and changes nothing else
            return $db instanceof \PDO ? $db->inTransaction() && $db->rollBack() || self::isSQLite($db) && $db->exec('ROLLBACK') !== false
                : !$db->query('SET TRANSACTION READ WRITE') && $db->rollback();
        } catch (\Exception $e) {
            return match (self::number($e)) { 1 => false, 1568 => $db->rollback(), default => true };
        }
    }

    /** Returns a job's options as columns. key: unique among the live jobs of the type. in: seconds from now, by the database's clock.
     *  timeout: seconds. weight: against the queue's limits. raw: data is a text that stays as it is. */
    private static function row(string $type, mixed $data = null, ?string $key = null, ?\DateTimeInterface $at = null, int|float|\DateInterval|null $in = null,
        ?int $priority = null, ?int $timeout = null, ?int $weight = null, ?array $windows = null, ?string $shardKey = null, bool $raw = false): array {
        $wrong = $type === '' || $key === '' || $at !== null && $in !== null || $raw && !is_string($data);
        $wrong && throw new HipqError('the type or the key is empty, the job has both at and in, or raw data is no string');
        return self::given(['job_type' => $type, 'job_data' => $raw || $data === null ? $data : json_encode($data, self::JSON), 'job_key' => $key,
            'scheduled_run_time' => self::time($at ?? $in), 'priority' => $priority, 'timeout' => $timeout, 'throttle_factor' => $weight,
            'time_windows' => $windows, 'shard_key' => $shardKey]);
    }

    private function table(string $queue, string $suffix = ''): string {
        return '`' . str_replace('`', '``', ($this->tables[$queue] ?? "{$this->instance}_$queue") . $suffix) . '`';
    }
    private function insert(string $queue, array $rows, string $more = ''): array {
        $columns = array_keys(array_merge(...$rows));
        $values = fn ($row) => '(' . implode(', ', array_map(fn ($column) => $this->sql($row[$column] ?? null, $column), $columns)) . ')';
        $job = count($rows) > 1 ? 'one of the types and keys' : "type {$rows[0]['job_type']} has the key " . ($rows[0]['job_key'] ?? '');
        return $this->query("INSERT INTO {$this->table($queue)} (" . implode(', ', $columns) . ') VALUES ' . implode(', ', array_map($values, $rows)) . " $more",
            "queue $queue: a live job of $job");
    }

    /** Text is in hex, so that neither the session's character set nor its SQL mode nor emulated statements change it. */
    private function sql(mixed $value, string $column = ''): string {
        $sqlite = self::isSQLite($this->db);
        return match (true) {
            $value === null => $column && !$sqlite ? 'DEFAULT' : 'NULL', // on SQLite, NULL is a column's default
            is_int($value) && isset(self::LEAST[$column]) && ($value < self::LEAST[$column] || $value > 2147483647) => throw new HipqError("$column $value is out of range"),
            is_int($value) => (string) $value,
            is_array($value) => $this->sql($column && !$value ? 'NONE' : json_encode($value ?: new \stdClass(), self::JSON)),
            $column === 'scheduled_run_time' && $value[-1] === 'Z' => "'" . strtr($value, ['T' => ' ', 'Z' => '']) . "'",
            $column === 'scheduled_run_time' => sprintf($sqlite ? "strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%+.3F seconds')"
                : 'UTC_TIMESTAMP(6) + INTERVAL %F SECOND', (float) $value),
            !preg_match('//u', $value) => throw new HipqError('a text is not UTF-8'),
            default => $sqlite ? "CAST(X'" . bin2hex($value) . "' AS TEXT)" : "CONVERT(X'" . bin2hex($value) . "' USING utf8mb4)",
        };
    }

    /** Calls the procedure, or on SQLite the command of this name. */
    private function change(string $what, string $queue, int|string $job, ?string $key, ?array $options = null): void {
        if (!self::isSQLite($this->db)) {
            $this->call("job_$what", $queue, ...self::names($job, $key), ...($options === null ? [] : [$options]));
            return;
        }
        $row = $this->get($queue, $job, $key) ?? throw new JobNotFound("queue $queue has no such job", 31007);
        $options = ($options ?? []) + self::given(['config' => $this->config]);
        $flag = fn ($name, $value) => '--' . strtr($name, '_', '-') . '=' . (is_bool($value) ? (int) $value : $value);
        $names = in_array($what, ['complete', 'fail']) ? [$row['job_type'], $row['job_key']] : [(string) $row['id']];
        $process = proc_open([$this->command, $what, ...array_map($flag, array_keys($options), $options), '--', $queue, ...$names],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes);
        $said = trim(stream_get_contents($pipes[1]));
        ($code = proc_close($process)) === 0 || throw new Refused($said, $code);
    }
    private function call(string $procedure, string $queue, int|string|array|null ...$arguments): array {
        return $this->query("CALL `{$this->instance}_$procedure`(" . implode(', ', array_map($this->sql(...), [$queue, ...$arguments])) . ')');
    }
    /** Returns the rows of the first result set, and reads all. $duplicate is the message of a duplicate. */
    private function query(string $sql, string $duplicate = ''): array {
        $pdo = $this->db instanceof \PDO;
        try {
            $result = $this->db->query($sql) ?: throw $pdo ? new \PDOException($this->db->errorInfo()[2], $this->db->errorInfo()[1])
                : new \mysqli_sql_exception($this->db->error, $this->db->errno); // the application has turned exceptions off
            $isEmpty = $pdo ? $result->columnCount() === 0 : $result === true;
            $rows = $isEmpty ? [] : ($pdo ? $result->fetchAll(\PDO::FETCH_ASSOC) : $result->fetch_all(MYSQLI_ASSOC));
            while ($pdo ? !self::isSQLite($this->db) && $result->nextRowset() : $this->db->more_results() && $this->db->next_result()) {}
            return $rows;
        } catch (\PDOException|\mysqli_sql_exception $e) {
            [$number, $message] = [self::number($e), $e->getMessage()];
            throw match (true) {
                $number === 31007 => new JobNotFound($message, $number, $e),
                $number >= 31000 && $number < 32000 => new Refused($message, $number, $e),
                in_array($number, [19, 1062]) && preg_match('/[$.]live\'?$/', $message) => new DuplicateJob($duplicate, $number, $e),
                default => $e,
            };
        }
    }

    /** A time, or seconds from now, as hipq reads them. */
    private static function time(\DateTimeInterface|\DateInterval|int|float|null $time): ?string {
        return match (true) {
            $time instanceof \DateTimeInterface => (new \DateTime("@{$time->getTimestamp()}"))->format('Y-m-d\TH:i:s') . $time->format('.u\Z'),
            $time instanceof \DateInterval => (new \DateTime('@0'))->add($time)->format('U.u\s'),
            default => $time === null ? null : sprintf('%Fs', $time),
        };
    }
    private static function names(int|string $job, ?string $key): array { return is_int($job) ? [$job, null, null] : [null, $job, (string) $key]; }
    private static function given(array $values): array { return array_filter($values, fn ($value) => $value !== null); }
    private static function number(\Throwable $e): int { return (int) ($e->errorInfo[1] ?? $e->getCode()); }
    private static function isSQLite(\PDO|\mysqli $db): bool { return $db instanceof \PDO && $db->getAttribute(\PDO::ATTR_DRIVER_NAME) === 'sqlite'; }
}
