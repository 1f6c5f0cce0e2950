<?php

namespace Hipq\Laravel;

use DateInterval;
use DateTimeInterface;
use Hipq\Client;
use Hipq\HipqError;
use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Database\Connection;
use Illuminate\Queue\Queue;

class HipqQueue extends Queue implements QueueContract, ClearableQueue
{
    /** hipq's limit for a timeout, ten years */
    private const FOREVER = 316224000;

    public function __construct(protected Connection $database, protected array $settings)
    {
        $this->dispatchAfterCommit = $settings['after_commit'] ?? false;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->later(null, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        return $this->enqueueUsing($job, $this->createPayload($job, $this->getQueue($queue), $data, $delay), $queue, $delay,
            fn ($payload, $queue, $delay) => $this->insert([$this->row($payload, $delay)], $queue));
    }

    public function pushRaw($payload, $queue = null, array $options = [])
    {
        return $this->insert([$this->row($payload, $options['delay'] ?? null)], $queue);
    }

    public function bulk($jobs, $data = '', $queue = null)
    {
        $rows = [];
        foreach ((array) $jobs as $job) {
            $rows[] = $this->row($this->createPayload($job, $this->getQueue($queue), $data), $job->delay ?? null);
        }
        // one INSERT has one set of columns
        foreach (collect($rows)->groupBy(fn ($row) => implode(' ', array_keys($row))) as $alike) {
            foreach ($alike->chunk(200) as $chunk) {
                $this->insert($chunk->values()->all(), $queue);
            }
        }
    }

    /** Reads the next job from standard input: `queue:work hipq` is the program of a `stream` handler. */
    public function pop($queue = null)
    {
        HipqJob::answer();
        if (($line = HipqJob::next()) !== null) {
            return HipqJob::$open = new HipqJob($this->container, $line, $this->connectionName);
        }
        $this->container['queue.worker']->shouldQuit = true; // hipq has no more jobs for this program
    }

    /** Jobs that have not ended. */
    public function size($queue = null)
    {
        return $this->count($queue, ['initial', 'running', 'error', 'retry']);
    }

    public function pendingSize($queue = null)
    {
        return $this->count($queue, ['initial', 'retry'], '<=');
    }

    public function delayedSize($queue = null)
    {
        return $this->count($queue, ['initial', 'retry'], '>');
    }

    public function reservedSize($queue = null)
    {
        return $this->count($queue, ['running', 'error']);
    }

    public function creationTimeOfOldestPendingJob($queue = null)
    {
        $time = $this->jobs($queue)->whereIn('state', ['initial', 'retry'])->where('scheduled_run_time', '<=', gmdate('Y-m-d H:i:s'))->min('create_time');

        return $time === null ? null : strtotime("$time UTC");
    }

    /** Cancels the jobs that wait, and returns how many. */
    public function clear($queue)
    {
        $count = 0;
        foreach ($this->jobs($queue)->whereIn('state', ['initial', 'retry'])->pluck('id') as $id) {
            try {
                $this->client()->cancel($this->getQueue($queue), (int) $id);
                $count++;
            } catch (HipqError $e) {
                // it has started or ended meanwhile
            }
        }

        return $count;
    }

    /** hipq's name of a queue: letters, digits and "_". */
    public function getQueue($queue)
    {
        return preg_replace('/[^a-z0-9_]/', '_', strtolower($queue ?: $this->settings['queue'] ?? 'default'));
    }

    public function client(): Client
    {
        return new Client($this->database->getPdo(), $this->settings['instance'], $this->settings['tables'] ?? [], $this->settings['command'] ?? 'hipq', $this->settings['config'] ?? null);
    }

    /** The view of a queue's jobs, or of its failures. */
    public function jobs($queue, string $view = 'jobs')
    {
        return $this->database->table($this->table($queue).'$'.$view);
    }

    /** @return list<string> the queues of hipq.yaml */
    public function queues(): array
    {
        return $this->database->table($this->settings['instance'].'_queues')->orderBy('queue')->pluck('queue')->all();
    }

    protected function table($queue): string
    {
        $queue = $this->getQueue($queue);

        return $this->settings['tables'][$queue] ?? "{$this->settings['instance']}_$queue";
    }

    protected function count($queue, array $states, ?string $due = null): int
    {
        $jobs = $this->jobs($queue)->whereIn('state', $states);

        return $due === null ? $jobs->count() : $jobs->where('scheduled_run_time', $due, gmdate('Y-m-d H:i:s'))->count();
    }

    /** A job may have a property $hipq, such as ['priority' => 10, 'throttle_factor' => 2]: other columns of its row. */
    protected function createPayloadArray($job, $queue, $data = '')
    {
        return parent::createPayloadArray($job, $queue, $data) + (isset($job->hipq) ? ['hipq' => $job->hipq] : []);
    }

    protected function row(string $payload, $delay): array
    {
        $job = json_decode($payload, true);
        $timeout = $job['timeout'] ?? null;

        return array_filter(($job['hipq'] ?? []) + [
            'job_type' => $this->settings['type'] ?? (substr(preg_replace('/[[:cntrl:]].*/s', '', $job['displayName'] ?? ''), 0, 255) ?: 'job'),
            'job_data' => $payload,
            'job_key' => $job['uuid'] ?? null, // one live row for each dispatch
            'timeout' => $timeout === null ? null : min(($timeout ?: self::FOREVER) + 10, self::FOREVER), // Laravel's own alarm comes first
            'scheduled_run_time' => $this->dueAt($delay),
        ], fn ($value) => $value !== null);
    }

    protected function dueAt($delay)
    {
        if ($delay instanceof DateTimeInterface || $delay instanceof DateInterval) {
            return gmdate('Y-m-d H:i:s', $this->availableAt($delay));
        }
        if (($seconds = (int) $delay) <= 0) {
            return null;
        }

        return $this->database->raw($this->database->getDriverName() === 'sqlite'
            ? "strftime('%Y-%m-%d %H:%M:%f', 'now', '+$seconds seconds')" : "UTC_TIMESTAMP(6) + INTERVAL $seconds SECOND");
    }

    protected function insert(array $rows, $queue)
    {
        $table = $this->database->table($this->table($queue));

        return count($rows) === 1 ? $table->insertGetId($rows[0]) : $table->insert($rows);
    }
}
