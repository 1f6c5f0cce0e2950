<?php

namespace Hipq\Messenger;

use Doctrine\Persistence\ConnectionRegistry;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\Messenger\Event\WorkerMessageFailedEvent;
use Symfony\Component\Messenger\Event\WorkerRunningEvent;
use Symfony\Component\Messenger\Event\WorkerStoppedEvent;
use Symfony\Component\Messenger\Exception\InvalidArgumentException;
use Symfony\Component\Messenger\Transport\Serialization\SerializerInterface;
use Symfony\Component\Messenger\Transport\TransportFactoryInterface;
use Symfony\Component\Messenger\Transport\TransportInterface;

/** hipq://QUEUE?instance=app, with the options connection, type, tables, command and config. */
final class HipqTransportFactory implements TransportFactoryInterface, EventSubscriberInterface
{
    public function __construct(private readonly ConnectionRegistry $registry)
    {
    }

    public function supports(string $dsn, array $options): bool
    {
        return str_starts_with($dsn, 'hipq://');
    }

    public function createTransport(string $dsn, array $options, SerializerInterface $serializer): TransportInterface
    {
        $parts = parse_url($dsn);
        parse_str($parts['query'] ?? '', $query);
        if (!isset($parts['host'])) {
            throw new InvalidArgumentException(\sprintf('The DSN "%s" is not of the form "hipq://QUEUE".', $dsn));
        }
        $options = $query + $options + ['instance' => 'app'];
        unset($options['transport_name']);

        return new HipqTransport($this->registry, $serializer, $options['instance'], $parts['host'], $options);
    }

    public static function getSubscribedEvents(): array
    {
        return [
            // before and after Messenger's listeners, which send the message again, or to the failure transport
            WorkerMessageFailedEvent::class => [['beforeFailed', 200], ['afterFailed', -200]],
            WorkerRunningEvent::class => 'onRunning',
            WorkerStoppedEvent::class => 'onStopped',
        ];
    }

    public function beforeFailed(): void
    {
        if (Stream::$open) {
            Stream::rollBack($this->registry);
        }
    }

    public function afterFailed(WorkerMessageFailedEvent $event): void
    {
        Stream::fails($event->getThrowable());
    }

    public function onRunning(WorkerRunningEvent $event): void
    {
        if (Stream::$ended) {
            $event->getWorker()->stop();
        }
    }

    public function onStopped(): void
    {
        Stream::answer($this->registry);
    }
}
