<?php

namespace Hipq\Laravel;

use Hipq\Client;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;
use Throwable;

class HipqJob extends Job implements JobContract
{
    /** The job that has no answer yet. A program has one standard input, so one for all connections. */
    public static ?self $open = null;

    private static $input;

    private static ?\Closure $say = null;

    private int $answerAfter = 0;

    private ?Throwable $answerError = null;

    public function __construct(Container $container, private object $line, $connectionName)
    {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $line->queue;
    }

    public function getJobId()
    {
        return $this->line->id;
    }

    public function getRawBody()
    {
        return json_encode($this->line->job_data, JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION);
    }

    /** An attempt that hipq interrupted, or whose worker was lost, is not the job's fault. */
    public function attempts()
    {
        return max(1, $this->line->attempt - ($this->line->interrupts ?? 0));
    }

    public function release($delay = 0)
    {
        parent::release($delay);
        $this->answerAfter = max(0, (int) $delay);
    }

    public function fail($e = null)
    {
        $this->answerError ??= $e;
        parent::fail($e);
    }

    public function caught(Throwable $e): void
    {
        $this->answerError ??= $e;
    }

    /** Returns the next job, or null at the end. */
    public static function next(): ?object
    {
        if (! self::$input) {
            if (getenv('HIPQ_WORKER_ID') === false) {
                fwrite(STDERR, "queue:work hipq is started by `hipq work`: put it into hipq.yaml as a stream handler\n");
                exit(64);
            }
            self::$say = Client::redirect();
            self::$input = fopen('php://stdin', 'r');
            register_shutdown_function(fn () => self::answer());
            (self::$say)(['ready' => true]);
        }
        $line = fgets(self::$input);

        return $line === false ? null : json_decode($line, false, 20000, JSON_THROW_ON_ERROR);
    }

    /** Tells hipq how the job ended, after everything that Laravel does for it. If the program is $ending, also how an undecided one did. */
    public static function answer(bool $ending = false): void
    {
        $job = self::$open;
        if (! $job || ! ($ending || $job->deleted || $job->released || $job->failed)) {
            return; // of a job that ended the program, hipq says so
        }
        self::$open = null;
        $reply = $job->reply();
        foreach ($job->container['db']->getConnections() as $name => $database) {
            if ($database->transactionLevel() > 0) { // what the job did is about to be lost
                $database->rollBack(0);
                if ($reply['outcome'] === 'finished') {
                    $reply = ['outcome' => 'retry', 'error' => "the job left a transaction open on the connection $name, which was rolled back"];
                }
            }
        }
        (self::$say)(['id' => $job->line->id, 'token' => $job->line->token] + $reply);
    }

    private function reply(): array
    {
        $error = $this->answerError ? get_class($this->answerError).': '.mb_strcut($this->answerError->getMessage(), 0, 2000) : null;
        if ($this->answerError) {
            fwrite(STDERR, "$this->answerError\n"); // the log, which hipq keeps with the attempt
        }
        if ($this->failed) {
            return ['outcome' => 'failed', 'error' => $error ?? 'failed'];
        }
        if ($this->released && $error !== null) {
            return ['outcome' => 'retry', 'error' => $error, 'retry_after' => "{$this->answerAfter}s"];
        }
        if ($this->released) { // no error, but for Laravel an attempt
            return ['outcome' => 'release', 'retry_after' => "{$this->answerAfter}s"];
        }
        if ($this->deleted) {
            return ['outcome' => 'finished'];
        }

        return ['outcome' => 'retry', 'error' => $error ?? 'the job timed out, or ended without an outcome', 'retry_after' => (int) explode(',', (string) $this->backoff())[0].'s'];
    }
}
