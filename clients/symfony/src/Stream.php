<?php

namespace Hipq\Messenger;

use Doctrine\Persistence\ConnectionRegistry;
use Hipq\Client;

/**
 * The jobs that hipq sends to this program, `messenger:consume`. There is one standard input, so one for all transports.
 *
 * @internal
 */
final class Stream
{
    /** The job that has no answer yet. */
    public static ?object $open = null;

    /** Its answer, as far as it is known. */
    public static ?array $reply = null;

    /** hipq has no more jobs for this program. */
    public static bool $ended = false;

    private static $input;

    private static ?\Closure $say = null;

    public static function next(): ?object
    {
        if (!self::$input) {
            if (false === getenv('HIPQ_WORKER_ID')) {
                fwrite(\STDERR, "messenger:consume of a hipq transport is started by `hipq work`: put it into hipq.yaml as a stream handler\n");
                exit(64);
            }
            self::$say = Client::redirect();
            self::$input = fopen('php://stdin', 'r');
            (self::$say)(['ready' => true]);
        }
        $line = fgets(self::$input);
        self::$ended = false === $line;

        return self::$open = self::$ended ? null : json_decode($line, false, 20000, \JSON_THROW_ON_ERROR);
    }

    public static function fails(\Throwable $e): void
    {
        if (!self::$open) {
            return;
        }
        fwrite(\STDERR, "$e\n"); // the log, which hipq keeps with the attempt
        if ('finished' !== (self::$reply['outcome'] ?? '')) { // it is if the message was sent again as another job
            $cause = $e->getPrevious() ?? $e;
            self::$reply = ['error' => $cause::class.': '.substr($cause->getMessage(), 0, 2000)] + (self::$reply ?? ['outcome' => 'failed']);
        }
    }

    /** Tells hipq how the job ended, if that is known. */
    public static function answer(ConnectionRegistry $registry): void
    {
        if (!self::$open || !self::$reply) {
            return;
        }
        if (self::rollBack($registry) && 'finished' === self::$reply['outcome']) {
            self::$reply = ['outcome' => 'retry', 'error' => 'the message left a transaction open, which was rolled back'];
        }
        (self::$say)(['id' => self::$open->id, 'token' => self::$open->token] + self::$reply);
        self::$open = self::$reply = null;
    }

    /** Rolls back what a handler left open, because it would swallow what is written next. */
    public static function rollBack(ConnectionRegistry $registry): bool
    {
        $open = false;
        foreach ($registry->getConnections() as $connection) {
            for (; $connection->isTransactionActive(); $open = true) {
                $connection->rollBack();
            }
        }

        return $open;
    }
}
