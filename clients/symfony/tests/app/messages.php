<?php

namespace App;

use Doctrine\Persistence\ConnectionRegistry;
use Symfony\Component\Messenger\Exception\RecoverableMessageHandlingException;
use Symfony\Component\Messenger\Exception\UnrecoverableMessageHandlingException;
use Symfony\Component\Messenger\Handler\Acknowledger;
use Symfony\Component\Messenger\Handler\BatchHandlerInterface;
use Symfony\Component\Messenger\Handler\BatchHandlerTrait;
use Symfony\Component\Messenger\MessageBusInterface;

abstract class Message
{
    private string $secret = "nul\0ü€"; // private properties have NULs in serialized objects

    public function __construct(public string $name, public string $how = 'runs')
    {
    }

    public function whole(): string
    {
        return "nul\0ü€" === $this->secret ? 'whole' : 'broken';
    }
}

class Work extends Message
{
}

class Email extends Message
{
}

class Both extends Message
{
}

class Batched extends Message
{
}

class Handler
{
    public function __construct(protected ConnectionRegistry $registry, protected MessageBusInterface $bus)
    {
    }

    protected function trace(string $name, string $note): void
    {
        $this->registry->getConnection()->insert('trace', ['job' => $name, 'note' => $note]);
    }

    protected function tries(string $name): int
    {
        return 1 + $this->registry->getConnection()->fetchOne('SELECT COUNT(*) FROM trace WHERE job = ?', [$name]);
    }
}

class WorkHandler extends Handler
{
    public function __invoke(Work $work): void
    {
        if ('quick' === $work->how) {
            return;
        }
        if ('steady' === $work->how) {
            steady(substr($work->name, 7), 1, fn () => $this->trace($work->name, 'runs'));

            return;
        }
        if ('slow' === $work->how) {
            $this->trace($work->name, 'begins 1');
            for ($end = microtime(true) + ('slow 1' === $work->name ? 3 : 8); microtime(true) < $end; usleep(50000)) {
            }
            $this->trace($work->name, 'ends 1');

            return;
        }
        $db = $this->registry->getConnection();
        'many' === $work->how && usleep(10000);
        if (str_contains($work->how, 'leaks')) {
            $db->beginTransaction();
        }
        $tries = $this->tries($work->name);
        echo "{\"id\": 1, \"outcome\": \"failed\"}\n";
        $this->trace($work->name, "$work->how $tries {$work->whole()}");
        match ($work->how) {
            'throws' => throw new \RuntimeException('no connection to the mail server'),
            'throws once' => 1 === $tries ? throw new \RuntimeException('once more') : null,
            'unrecoverable' => throw new UnrecoverableMessageHandlingException('no such customer'),
            'recoverable' => $tries < 5 ? throw new RecoverableMessageHandlingException('again and again') : null,
            'dies' => 1 === $tries ? posix_kill(getmypid(), \SIGKILL) : null,
            'exits' => 1 === $tries ? exit(3) : null,
            'dispatches' => $this->bus->dispatch(new Email("$work->name's email")),
            'throws in a transaction' => $db->transactional(fn () => throw new \RuntimeException('in a transaction')),
            'throws and leaks' => throw new \RuntimeException('with an open transaction'),
            'loses its connection' => $this->lose(),
            default => null,
        };
    }

    private function lose(): void
    {
        try {
            $this->registry->getConnection()->executeStatement('KILL CONNECTION_ID()');
        } catch (\Throwable) {
        }
        $this->registry->getConnection()->close(); // as DoctrineBundle's middleware doctrine_ping_connection does
    }
}

class EmailHandler extends Handler
{
    public function __invoke(Email $email): void
    {
        $this->trace($email->name, "email {$this->tries($email->name)}");
    }
}

class BothFirst extends Handler
{
    public function __invoke(Both $both): void
    {
        $this->trace("$both->name first", 'runs');
    }
}

class BothSecond extends Handler
{
    public function __invoke(Both $both): void
    {
        $this->trace("$both->name second", "runs {$this->tries("$both->name second")}");
        $this->tries("$both->name second") > 2 || throw new \RuntimeException('the second handler fails once');
    }
}

class BatchHandler extends Handler implements BatchHandlerInterface
{
    use BatchHandlerTrait;

    public function __invoke(Batched $message, ?Acknowledger $ack = null): mixed
    {
        return $this->handle($message, $ack);
    }

    private function process(array $jobs): void
    {
        foreach ($jobs as [$message, $ack]) {
            $this->trace($message->name, 'in a batch');
            $ack->ack($message);
        }
    }
}
