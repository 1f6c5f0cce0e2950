<?php

// hipq's client for PHP 8.1 and newer: one file without dependencies. README.md shows how to use it.

declare(strict_types=1);

namespace Hipq;

class HipqError extends \RuntimeException {}
/** A procedure or trigger of hipq's refused the call, and changed nothing. The code is the number, such as 31001. */
class Refused extends HipqError {}
final class JobNotFound extends Refused {}
/** A live job of this type has the key. */
final class DuplicateJob extends HipqError
{
    public function __construct(public readonly string $queue, public readonly ?string $type = null, public readonly ?string $key = null, ?\Throwable $previous = null)
    {
        parent::__construct("queue $queue has a live job of " . ($key === null ? 'the same type and key' : "type $type with the key $key"), 0, $previous);
    }
}

/** A job's function throws it: the job has failed for good. */
final class GiveUp extends \RuntimeException {}
/** A job's function throws it: an error; run again, not before $after seconds if given. */
final class Retry extends \RuntimeException
{
    public function __construct(string $message, public readonly int|float|null $after = null) { parent::__construct($message); }
}
/** A job's function throws it: no error; run again after $after seconds. It uses up no attempt unless $count is true. */
final class Release extends \RuntimeException
{
    public function __construct(public readonly int|float $after = 0, public readonly bool $count = false) { parent::__construct('released'); }
}

final class Job
{
    /** $data is what was pushed: JSON as arrays and scalars, other text as it is, null for nothing. $timeout is in seconds. */
    public function __construct(public readonly int $id, public readonly string $queue, public readonly string $type, public readonly string $key,
        public readonly mixed $data, public readonly int $attempt, public readonly int $interrupts, public readonly string $token,
        public readonly float $timeout, private readonly \Closure $say) {}

    /** Reports how far the job is. */
    public function progress(int|float $percent, string $note = ''): void
    {
        ($this->say)(['id' => $this->id, 'token' => $this->token, 'progress' => $percent, 'note' => $note]);
    }
}

/** A filter: what is written to the stream goes to standard error. */
final class ToStandardError extends \php_user_filter
{
    public function filter($in, $out, &$consumed, bool $closing): int
    {
        for (; $bucket = stream_bucket_make_writeable($in); $consumed += $bucket->datalen) {
            fwrite(STDERR, $bucket->data);
        }
        return PSFS_FEED_ME;
    }
}

final class Client
{
    private const JSON = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION;
    private readonly bool $sqlite;

    /** $tables names a queue's table, if it isn't INSTANCE_QUEUE. On SQLite, methods that change a job run $command with $config. */
    public function __construct(private readonly \PDO|\mysqli $db, private readonly string $instance, private readonly array $tables = [],
        private readonly string $command = 'hipq', private readonly ?string $config = null)
    {
        $this->sqlite = $db instanceof \PDO && $db->getAttribute(\PDO::ATTR_DRIVER_NAME) === 'sqlite';
    }

    /**
     * Adds a job in the connection's transaction and returns its id. The options are named arguments, those of row(). It is a plain
     * INSERT, unless onDuplicate is "ignore", which returns the live job's id, or "replace": these call job_submit, but not on SQLite.
     */
    public function push(string $queue, string $type, mixed $data = null, string $onDuplicate = 'error', mixed ...$options): int
    {
        $row = self::row($type, $data, ...$options);
        if (!in_array($onDuplicate, $this->sqlite ? ['error', 'ignore'] : ['error', 'ignore', 'replace'], true)) {
            throw new HipqError("onDuplicate can't be $onDuplicate here");
        }
        if ($onDuplicate !== 'error' && !$this->sqlite) {
            $rest = array_diff_key($row, ['job_type' => 1, 'job_key' => 1, 'job_data' => 1]) + ($onDuplicate === 'replace' ? ['on_duplicate' => 'replace'] : []);
            return (int) $this->call('job_submit', $queue, $row['job_type'], $row['job_key'] ?? null, $row['job_data'] ?? null, self::options($rest))[0]['id'];
        }
        try {
            $this->insert($queue, [$this->values($row)]);
        } catch (DuplicateJob $e) {
            $live = $onDuplicate === 'error' ? [] : $this->query($queue, "SELECT id FROM {$this->table($queue)} WHERE live = 1 AND job_type = "
                . "{$this->text($type)} AND job_key = {$this->text($row['job_key'])}");
            return (int) ($live[0]['id'] ?? throw new DuplicateJob($queue, $type, $row['job_key'] ?? null, $e));
        }
        return (int) ($this->db instanceof \PDO ? $this->db->lastInsertId() : $this->db->insert_id);
    }

    /** Adds jobs like ['type' => 'send', 'data' => …, 'key' => …] by as few INSERTs as their size allows, and returns how many. */
    public function pushMany(string $queue, iterable $jobs): int
    {
        [$count, $size, $rows] = [0, 0, []];
        foreach ($jobs as $job) {
            $row = $this->values(self::row(...$job));
            $length = strlen(implode(',', $row));
            if ($rows && (array_keys($row) !== array_keys($rows[0]) || count($rows) === 500 || $size + $length > 500_000)) {
                $this->insert($queue, $rows);
                [$size, $rows] = [0, []];
            }
            [$rows[], $size, $count] = [$row, $size + $length, $count + 1];
        }
        $rows && $this->insert($queue, $rows);
        return $count;
    }

    /** Returns a job by its id, or by type and key: the live one, else the newest. It is a row of the view INSTANCE_QUEUE$jobs. */
    public function get(string $queue, int|string $job, ?string $key = null): ?array
    {
        [$id, $type] = is_int($job) ? [$job, null] : [null, $job];
        if ($this->sqlite) {
            $where = $type === null ? "id = $id" : "job_type = {$this->text($type)} AND job_key = {$this->text((string) $key)}";
            return $this->query($queue, "SELECT * FROM {$this->table($queue, '$jobs')} WHERE $where ORDER BY state = 'final', id DESC LIMIT 1")[0] ?? null;
        }
        $this->query($queue, 'SET @hipq_results = @@character_set_results, character_set_results = utf8mb4');
        try {
            return $this->call('job_get', $queue, $id, $type, $key)[0] ?? null;
        } catch (JobNotFound) {
            return null;
        } finally {
            $this->query($queue, 'SET character_set_results = @hipq_results');
        }
    }

    public function cancel(string $queue, int|string $job, ?string $key = null, bool $running = false): void
    {
        $this->act('cancel', $queue, $job, $key, $running ? ['running' => true] : []);
    }

    public function retry(string $queue, int|string $job, ?string $key = null): void
    {
        $this->act('retry', $queue, $job, $key);
    }

    public function dismiss(string $queue, int|string $job, ?string $key = null): void
    {
        $this->act('dismiss', $queue, $job, $key);
    }

    public function reschedule(string $queue, int|string $job, ?string $key = null, ?\DateTimeInterface $at = null, int|float|\DateInterval $in = 0): void
    {
        $this->act('reschedule', $queue, $job, $key, $at === null ? ['in' => self::seconds($in)] : ['at' => self::utc($at)]);
    }

    /** Ends a job that awaits its answer: $outcome is "finished", "retry" or "failed". */
    public function answer(string $queue, string $type, string $key, string $outcome, mixed $result = null, ?string $error = null, int|float|null $retryAfter = null): void
    {
        $result = $result === null ? null : json_encode($result, self::JSON);
        if ($this->sqlite) {
            $this->hipq(...($outcome === 'finished' ? ['complete', ...($result === null ? [] : ["--data=$result"])]
                : ['fail', '--error=' . ($error ?? $outcome), ...($outcome === 'retry' ? ['--retry'] : [])]), ...['--', $queue, $type, $key]);
        } else {
            $options = array_filter(['error' => $error, 'retry_after' => $retryAfter], fn ($value) => $value !== null);
            $this->call('job_answer', $queue, null, $type, $key, $outcome, $result, self::options($options));
        }
    }

    /**
     * Is a `stream` program: calls the function of each job's type until standard input ends; "*" serves all other types. What the
     * function returns is the result. If it leaves a transaction open on a connection, that is rolled back, and the job retried.
     *
     * @param array<string, callable(Job): mixed> $functions
     */
    public static function run(array $functions, \PDO|\mysqli ...$connections): void
    {
        $say = self::redirect();
        $in = fopen('php://stdin', 'r');
        $say(['ready' => true]);
        for ($lost = false; !$lost && ($line = fgets($in)) !== false;) {
            $line = json_decode($line, true, 20_000, JSON_THROW_ON_ERROR);
            $data = is_string($line['job_data']) ? json_decode($line['job_data'], true) ?? $line['job_data'] : $line['job_data'];
            $job = new Job($line['id'], $line['queue'], $line['job_type'], $line['job_key'], $data, $line['attempt'], $line['interrupts'] ?? 0,
                $line['token'], $line['timeout_ms'] / 1000, $say);
            try {
                $function = $functions[$job->type] ?? $functions['*'] ?? throw new GiveUp("there is no function for the job type $job->type");
                $result = $function($job);
                $reply = ['outcome' => 'finished'] + ($result === null ? [] : ['result' => $result]);
                json_encode($reply, self::JSON);
            } catch (GiveUp $e) {
                $reply = ['outcome' => 'failed', 'error' => $e->getMessage()];
            } catch (Retry $e) {
                $reply = ['outcome' => 'retry', 'error' => $e->getMessage()] + ($e->after === null ? [] : ['retry_after' => $e->after ?: '0s']);
            } catch (Release $e) {
                $reply = ['outcome' => 'release', 'retry_after' => $e->after ?: '0s', 'count' => $e->count];
            } catch (\Throwable $e) {
                fwrite(STDERR, "$e\n");
                $reply = ['outcome' => 'retry', 'error' => $e::class . ': ' . substr($e->getMessage(), 0, 1000)];
                $lost = in_array(self::number($e), [1927, 2006, 2013, 4031], true); // the next program has a new connection
            }
            foreach ($connections as $db) {
                if (self::rollBack($db) && $reply['outcome'] === 'finished') {
                    $reply = ['outcome' => 'retry', 'error' => 'the job left a transaction open, which was rolled back'];
                }
            }
            $say(['id' => $job->id, 'token' => $job->token] + $reply);
        }
    }

    /** Sends what PHP prints to standard error; the function that it returns writes a line of JSON to the real standard output. */
    public static function redirect(): \Closure
    {
        $out = fopen('php://stdout', 'w');
        ini_set('display_errors', 'stderr');
        stream_filter_register('hipq.stderr', ToStandardError::class) && stream_filter_append(STDOUT, 'hipq.stderr', STREAM_FILTER_WRITE);
        ob_start(fn (string $text): string => substr($text, (int) fwrite(STDERR, $text)), 1);
        return fn (array $line) => fwrite($out, json_encode($line, self::JSON | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
    }

    private static function rollBack(\PDO|\mysqli $db): bool
    {
        try {
            if ($db instanceof \PDO) { // which doesn't know of a transaction that SQL began on SQLite
                return $db->inTransaction() ? $db->rollBack() : $db->getAttribute(\PDO::ATTR_DRIVER_NAME) === 'sqlite' && $db->exec('ROLLBACK') !== false;
            }
            $db->query('SET TRANSACTION READ WRITE'); // is refused in a transaction, and changes nothing else
            return $db->errno === 1568 && $db->rollback();
        } catch (\Exception $e) {
            return match (self::number($e)) { 1 => false, 1568 => $db->rollback(), default => true };
        }
    }

    /**
     * @param \DateInterval|int|float|null $in from now, by the database's clock: seconds
     * @param string|null $key unique among the live jobs of the type
     * @param int|null $timeout seconds
     * @param int|null $weight against the queue's limits
     * @param list<string>|null $windows time windows
     * @param bool $raw $data is a string that stays as it is; else it becomes JSON
     */
    private static function row(string $type, mixed $data = null, ?string $key = null, ?\DateTimeInterface $at = null, int|float|\DateInterval|null $in = null,
        ?int $priority = null, ?int $timeout = null, ?int $weight = null, ?array $windows = null, ?string $shardKey = null, bool $raw = false): array
    {
        // A session without strict mode would change these without a word; all else the table checks.
        foreach ([[$priority, -2147483647], [$timeout, 1], [$weight, 0]] as [$number, $least]) {
            if ($number !== null && ($number < $least || $number > 2147483647)) {
                throw new HipqError("$number is out of range");
            }
        }
        if ($type === '' || $key === '' || $at !== null && $in !== null || $raw && !is_string($data)) {
            throw new HipqError('the type or the key is empty, the job has both at and in, or raw data is no string');
        }
        return array_filter(['job_type' => $type, 'job_data' => $raw || $data === null ? $data : json_encode($data, self::JSON), 'job_key' => $key,
            'at' => $at === null ? null : self::utc($at), 'in' => $in === null ? null : self::seconds($in), 'priority' => $priority, 'timeout' => $timeout,
            'throttle_factor' => $weight, 'time_windows' => $windows, 'shard_key' => $shardKey], fn ($value) => $value !== null);
    }

    /** @return array<string, string|int> a row's columns as SQL */
    private function values(array $row): array
    {
        foreach ($row as $name => $value) {
            $values[['at' => 'scheduled_run_time', 'in' => 'scheduled_run_time'][$name] ?? $name] = match (true) {
                $name === 'at' => "'$value'",
                $name === 'in' => $this->sqlite ? sprintf("strftime('%%Y-%%m-%%d %%H:%%M:%%f', 'now', '%+.3F seconds')", $value)
                    : sprintf('UTC_TIMESTAMP(6) + INTERVAL %.0F MICROSECOND', $value * 1e6),
                is_array($value) => $this->text($value ? json_encode($value, self::JSON) : 'NONE'),
                is_string($value) => $this->text($value),
                default => $value,
            };
        }
        return $values;
    }

    private function insert(string $queue, array $rows): void
    {
        $this->query($queue, "INSERT INTO {$this->table($queue)} (" . implode(', ', array_keys($rows[0])) . ') VALUES '
            . implode(', ', array_map(fn ($row) => '(' . implode(', ', $row) . ')', $rows)));
    }

    private function table(string $queue, string $suffix = ''): string
    {
        return '`' . str_replace('`', '``', ($this->tables[$queue] ?? "{$this->instance}_$queue") . $suffix) . '`';
    }

    /** In hex, so that neither the session's character set nor its SQL mode nor emulated statements change the text. */
    private function text(string $text): string
    {
        preg_match('//u', $text) || throw new HipqError('a text is not UTF-8');
        return $this->sqlite ? "CAST(X'" . bin2hex($text) . "' AS TEXT)" : "CONVERT(X'" . bin2hex($text) . "' USING utf8mb4)";
    }

    private static function utc(\DateTimeInterface $at): string
    {
        return \DateTimeImmutable::createFromInterface($at)->setTimezone(new \DateTimeZone('UTC'))->format('Y-m-d H:i:s.u');
    }

    private static function seconds(int|float|\DateInterval $in): int|float
    {
        return $in instanceof \DateInterval ? (float) (new \DateTimeImmutable('@0'))->add($in)->format('U.u') : $in;
    }

    private static function options(array $options): string
    {
        return json_encode((object) array_replace($options, isset($options['at']) ? ['at' => "{$options['at']}Z"] : []), self::JSON);
    }

    private function act(string $what, string $queue, int|string $job, ?string $key, ?array $options = null): void
    {
        if (!$this->sqlite) {
            $this->call("job_$what", $queue, ...(is_int($job) ? [$job, null, null] : [null, $job, $key]), ...($options === null ? [] : [self::options($options)]));
            return;
        }
        $id = is_int($job) ? $job : $this->get($queue, $job, $key)['id'] ?? throw new JobNotFound("no job of type $job has the key $key", 31007);
        $flags = array_map(fn ($name, $value) => match ($name) { 'running' => '--running', 'at' => '--at=' . strtr($value, ' ', 'T') . 'Z', 'in' => '--in=' . ceil($value) . 's' },
            array_keys($options ?? []), $options ?? []);
        $this->hipq($what, ...[...$flags, '--', $queue, (string) $id]);
    }

    private function call(string $procedure, string $queue, int|string|null ...$arguments): array
    {
        $own = isset($this->tables[$queue]);
        $arguments = array_map(fn ($value) => is_string($value) ? $this->text($value) : $value ?? 'NULL', $own ? $arguments : [$queue, ...$arguments]);
        return $this->query($queue, 'CALL ' . ($own ? $this->table($queue, "\$$procedure") : "`{$this->instance}_$procedure`") . '(' . implode(', ', $arguments) . ')');
    }

    private function hipq(string ...$arguments): void
    {
        $process = proc_open([$this->command, ...($this->config === null ? [] : ["--config=$this->config"]), ...$arguments],
            [['file', '/dev/null', 'r'], ['pipe', 'w'], ['redirect', 1]], $pipes) ?: throw new HipqError("can't run $this->command");
        $said = trim(stream_get_contents($pipes[1]));
        ($code = proc_close($process)) === 0 || throw new HipqError($said, $code);
    }

    private static function number(\Throwable $e): int
    {
        return $e instanceof \PDOException ? (int) ($e->errorInfo[1] ?? 0) : ($e instanceof \mysqli_sql_exception ? $e->getCode() : 0);
    }

    /** @return list<array<string, mixed>> the rows of the first result set; all are read */
    private function query(string $queue, string $sql): array
    {
        try {
            $result = $this->db->query($sql);
            if ($result === false && $this->db instanceof \mysqli) { // the application has turned exceptions off
                throw new \mysqli_sql_exception($this->db->error, $this->db->errno);
            } elseif ($result === false) {
                $e = new \PDOException((string) $this->db->errorInfo()[2]);
                $e->errorInfo = $this->db->errorInfo();
                throw $e;
            }
            if ($result instanceof \PDOStatement) {
                $rows = $result->columnCount() ? $result->fetchAll(\PDO::FETCH_ASSOC) : [];
                while (!$this->sqlite && $result->nextRowset()) {}
                return $rows;
            }
            $rows = $result === true ? [] : $result->fetch_all(MYSQLI_ASSOC);
            while ($this->db->more_results() && $this->db->next_result()) {}
            return $rows;
        } catch (\PDOException|\mysqli_sql_exception $e) {
            [$number, $message] = [self::number($e), $e->getMessage()];
            throw match (true) {
                $number === 31007 => new JobNotFound($message, $number, $e),
                $number >= 31000 && $number < 32000 => new Refused($message, $number, $e),
                $number === 1062 && str_contains($message, '$live'), $number === 19 && str_contains($message, '.live') => new DuplicateJob($queue, previous: $e),
                default => $e,
            };
        }
    }
}
