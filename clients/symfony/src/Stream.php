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
        $cause = $e->getPrevious() ?? $e;
        self::$reply = ['error' => $cause::class.': '.substr($cause->getMessage(), 0, 2000)] + (self::$reply ?? ['outcome' => 'failed']);
    }

    /** Tells hipq how the job ended, if that is known. */
    public static function answer(ConnectionRegistry $registry): void
    {
        if (!self::$open || !self::$reply) {
            return;
        }
        foreach ($registry->getConnections() as $name => $connection) {
            if ($connection->isTransactionActive()) { // what the handler did is about to be lost
                while ($connection->isTransactionActive()) {
                    $connection->rollBack();
                }
                if ('finished' === self::$reply['outcome']) {
                    self::$reply = ['outcome' => 'retry', 'error' => "the message left a transaction open on the connection $name, which was rolled back"];
                }
            }
        }
        (self::$say)(['id' => self::$open->id, 'token' => self::$open->token] + self::$reply);
        self::$open = self::$reply = null;
    }
}
