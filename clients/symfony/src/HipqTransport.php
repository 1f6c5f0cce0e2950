<?php

namespace Hipq\Messenger;

use Doctrine\Persistence\ConnectionRegistry;
use Hipq\Client;
use Symfony\Component\Messenger\Envelope;
use Symfony\Component\Messenger\Exception\MessageDecodingFailedException;
use Symfony\Component\Messenger\Stamp\DelayStamp;
use Symfony\Component\Messenger\Stamp\HandledStamp;
use Symfony\Component\Messenger\Stamp\RedeliveryStamp;
use Symfony\Component\Messenger\Stamp\SentToFailureTransportStamp;
use Symfony\Component\Messenger\Stamp\TransportMessageIdStamp;
use Symfony\Component\Messenger\Transport\Receiver\MessageCountAwareInterface;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** A message is a row of a queue's table. `messenger:consume` is the program of a `stream` handler: get() reads a line. */
final class HipqTransport implements TransportInterface, MessageCountAwareInterface
{
    /** @param array<string, mixed> $options */
    public function __construct(
        private readonly ConnectionRegistry $registry,
        private readonly SerializerInterface $serializer,
        private readonly string $instance,
        private readonly string $queue,
        private readonly array $options,
    ) {
    }

    public function send(Envelope $envelope): Envelope
    {
        $delay = ($envelope->last(DelayStamp::class)?->getDelay() ?? 0) / 1000;
        $again = $this->isRetryOfOpen($envelope);
        if ($again && !$envelope->last(HandledStamp::class)) { // the job in hand waits, and runs again
            Stream::$reply = ['outcome' => 'retry', 'error' => 'retried', 'retry_after' => $delay ?: '0s'];

            return $envelope;
        }
        $stamp = $envelope->last(HipqStamp::class) ?? new HipqStamp();
        $data = $this->serializer->encode($envelope->withoutAll(DelayStamp::class)->withoutAll(TransportMessageIdStamp::class));
        if (!preg_match('//u', $data['body'])) {
            $data = ['body' => base64_encode($data['body']), 'base64' => true] + $data;
        }
        $id = $this->client()->push($this->queue, $stamp->type ?? $this->options['type'] ?? substr($envelope->getMessage()::class, 0, 255), $data, key: $again ? null : $stamp->key,
            in: $delay ?: null, priority: $stamp->priority, timeout: $stamp->timeout, weight: $stamp->weight, windows: $stamp->windows, shardKey: $stamp->shardKey);
        if ($again) { // one of several handlers has succeeded, which the next job has to know
            Stream::$reply = ['outcome' => 'finished', 'result' => "sent again as job $id"];
        }

        return $envelope->with(new TransportMessageIdStamp($id));
    }

    public function get(): iterable
    {
        Stream::answer($this->registry);
        if (Stream::$open) {
            return []; // a batch handler keeps it: to an idle worker it is a batch of one
        }
        while ($job = Stream::next()) {
            try {
                $envelope = $this->decode($job);
            } catch (MessageDecodingFailedException $e) {
                Stream::fails($e);
                Stream::answer($this->registry);
                continue;
            }
            // An attempt that hipq interrupted, or whose worker was lost, is no retry.
            if (($retries = $job->attempt - 1 - ($job->interrupts ?? 0)) > 0) {
                $envelope = $envelope->with(new RedeliveryStamp($retries + ($envelope->last(RedeliveryStamp::class)?->getRetryCount() ?? 0)));
            }

            return [$envelope->with(new TransportMessageIdStamp($job->id))];
        }

        return [];
    }

    public function ack(Envelope $envelope): void
    {
        Stream::$reply ??= ['outcome' => 'finished'];
    }

    public function reject(Envelope $envelope): void
    {
        Stream::$reply ??= ['outcome' => 'failed', 'error' => 'rejected'];
    }

    /** The jobs that wait. */
    public function getMessageCount(): int
    {
        $table = $this->options['tables'][$this->queue] ?? "{$this->instance}_{$this->queue}";

        return (int) $this->connection()->fetchOne("SELECT COUNT(*) FROM `$table\$jobs` WHERE state IN ('initial', 'retry')");
    }

    private function decode(object $job): Envelope
    {
        $data = $job->job_data;
        if (!\is_object($data) || !\is_string($data->body ?? null)) {
            throw new MessageDecodingFailedException("job $job->id is no message");
        }

        return $this->serializer->decode(['body' => empty($data->base64) ? $data->body : base64_decode($data->body), 'headers' => (array) ($data->headers ?? [])]);
    }

    private function isRetryOfOpen(Envelope $envelope): bool
    {
        return Stream::$open && $envelope->last(RedeliveryStamp::class) && !$envelope->last(SentToFailureTransportStamp::class)
            && $envelope->last(TransportMessageIdStamp::class)?->getId() === Stream::$open->id;
    }

    private function client(): Client
    {
        return new Client($this->connection()->getNativeConnection(), $this->instance, $this->options['tables'] ?? [], $this->options['command'] ?? 'hipq', $this->options['config'] ?? null);
    }

    private function connection(): object
    {
        return $this->registry->getConnection($this->options['connection'] ?? null);
    }
}
