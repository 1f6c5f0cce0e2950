<?php

// Counts the words of texts and writes a report for each. handler: {stream: [php, stream.php], env: [PAUSE]}

declare(strict_types=1);

// Slow setup goes here, and runs once: require 'vendor/autoload.php'; $kernel->boot();

final class NoSuchText extends Exception {}
final class ToldToStop extends Exception {}

function say(array $job, array $what): void
{
    $what = ['id' => $job['id'], 'token' => $job['token']] + $what;
    fwrite(STDOUT, json_encode($what, JSON_THROW_ON_ERROR | JSON_INVALID_UTF8_SUBSTITUTE) . "\n");
}

function countWords(array $job): int
{
    $file = $job['job_data']['file'] ?? '';
    $report = "report-{$job['id']}.txt";
    if ($job['attempt'] > 1) { // an earlier attempt was killed or told to stop, at an unknown point
        foreach (glob("report-{$job['id']}.*.part") as $left) {
            unlink($left);
        }
        if (is_file($report)) { // it had done everything but report it
            return (int) file_get_contents($report);
        }
    }
    if (!is_string($file) || !is_file($file)) {
        throw new NoSuchText('no such text: ' . json_encode($file, JSON_THROW_ON_ERROR));
    }
    $part = "report-{$job['id']}.{$job['attempt']}.part";
    try {
        $out = fopen($part, 'x');
        $text = fopen($file, 'r');
        $size = filesize($file);
        $words = $told = 0;
        while (($line = fgets($text)) !== false) {
            $words += preg_match_all('/\S+/', $line);
            usleep((int) (1e6 * (float) getenv('PAUSE'))); // simulates slow work
            $percent = intdiv(ftell($text) * 100, $size);
            if ($percent > $told) {
                say($job, ['progress' => $told = $percent, 'note' => "$words words"]);
            }
        }
        fwrite($out, "$words words in $file\n");
        fclose($out);
        rename($part, $report); // atomically
    } finally {
        if (is_file($part)) {
            unlink($part);
        }
    }
    return $words;
}

// Otherwise PHP prints errors to standard output, which is for answers.
ini_set('display_errors', 'stderr');

// A warning, for example of a full disk, becomes an exception, and so an error of the attempt.
set_error_handler(fn (int $level, string $text, string $file, int $line) => throw new ErrorException($text, 0, $level, $file, $line));

// hipq sends SIGTERM at a job's timeout, and when its worker must end. Without the extension pcntl PHP ends at once, and leaves a
// part that the next attempt removes.
if (function_exists('pcntl_signal')) {
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, fn () => throw new ToldToStop('told to stop'));
}

try {
    while (($line = fgets(STDIN)) !== false) { // ends when hipq has no more jobs
        $job = json_decode($line, true, 512, JSON_THROW_ON_ERROR);
        try {
            $reply = ['outcome' => 'finished', 'result' => ['words' => countWords($job)]];
        } catch (NoSuchText $e) {
            $reply = ['outcome' => 'failed', 'error' => $e->getMessage()]; // a retry won't help
        } catch (ToldToStop $e) {
            throw $e;
        } catch (Throwable $e) {
            fwrite(STDERR, "$e\n"); // the log, kept with the attempt
            $reply = ['outcome' => 'retry', 'error' => $e->getMessage()];
        }
        say($job, $reply);
    }
} catch (ToldToStop $e) {
    fwrite(STDERR, "{$e->getMessage()}\n");
    exit(75);
}
