<?php

// Counts the words of a text and writes a report. handler: {exec: [php, exec.php], env: [PAUSE]}

declare(strict_types=1);

final class NoSuchText extends Exception {}
final class ToldToStop extends Exception {}

function say(array $what): void
{
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
                say(['progress' => $told = $percent, 'note' => "$words words"]);
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

// A warning, for example of a full disk, becomes an exception, and so an error of the attempt.
set_error_handler(fn (int $level, string $text, string $file, int $line) => throw new ErrorException($text, 0, $level, $file, $line));

// hipq sends SIGTERM at the timeout, and when its worker must end. Without the extension pcntl PHP ends at once, and leaves a part
// that the next attempt removes.
if (function_exists('pcntl_signal')) {
    pcntl_async_signals(true);
    pcntl_signal(SIGTERM, fn () => throw new ToldToStop('told to stop'));
}

try {
    $job = json_decode(stream_get_contents(STDIN), true, 512, JSON_THROW_ON_ERROR);
    say(['outcome' => 'finished', 'result' => ['words' => countWords($job)]]);
} catch (NoSuchText $e) {
    echo $e->getMessage(), "\n";
    exit(65); // a retry won't help; any other exception exits with 255, and is retried
} catch (ToldToStop $e) {
    say(['outcome' => 'retry', 'error' => $e->getMessage()]);
    exit(75);
}
