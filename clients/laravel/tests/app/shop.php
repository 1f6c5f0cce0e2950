<?php

// A shop on Laravel, with all of its configuration: from Debian's packages, or from Composer.
error_reporting(E_ALL & ~E_DEPRECATED);
ini_set('display_errors', 'stderr');
define('LARAVEL_START', microtime(true));
$composer = __DIR__.'/../../vendor/autoload.php';
if (is_file($composer)) {
    require $composer;
} else {
    require 'Illuminate/autoload.php';
    require __DIR__.'/../../../php/src/Hipq.php';
    foreach (['Queue', 'Job', 'FailedJobProvider', 'ServiceProvider'] as $class) {
        require __DIR__."/../../src/Hipq$class.php";
    }
}
require __DIR__.'/../../../php/tests/steady.php';
require __DIR__.'/jobs.php';

use Illuminate\Cache\RateLimiting\Limit;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Bootstrap;
use Illuminate\Support\Facades\Event;
use Illuminate\Support\Facades\RateLimiter;

class ShopConfig
{
    public function bootstrap(Application $app)
    {
        $database = getenv('DB_SQLITE') ? ['driver' => 'sqlite', 'database' => getenv('DB_SQLITE')]
            : ['driver' => 'mysql', 'host' => '127.0.0.1', 'port' => getenv('DB_PORT'), 'database' => getenv('DB_DATABASE'), 'username' => 'root', 'password' => '',
                'charset' => 'utf8mb4', 'collation' => 'utf8mb4_unicode_ci', 'strict' => true];
        $app->instance('config', new Illuminate\Config\Repository([
            'app' => ['name' => 'shop', 'env' => 'testing', 'debug' => true, 'key' => str_repeat('k', 32), 'cipher' => 'AES-256-CBC', 'timezone' => 'Europe/Berlin', 'locale' => 'en',
                'fallback_locale' => 'en', 'maintenance' => ['driver' => 'file'], 'providers' => [
                    Illuminate\Bus\BusServiceProvider::class, Illuminate\Cache\CacheServiceProvider::class, Illuminate\Database\DatabaseServiceProvider::class,
                    Illuminate\Encryption\EncryptionServiceProvider::class, Illuminate\Filesystem\FilesystemServiceProvider::class,
                    Illuminate\Foundation\Providers\ConsoleSupportServiceProvider::class, Illuminate\Queue\QueueServiceProvider::class,
                    Hipq\Laravel\HipqServiceProvider::class, ShopProvider::class]],
            'cache' => ['default' => getenv('CACHE_DRIVER') ?: 'database', 'prefix' => '', 'stores' => ['database' => ['driver' => 'database', 'table' => 'cache', 'connection' => null],
                'file' => ['driver' => 'file', 'path' => getenv('SHOP_DIR').'/app']]],
            'database' => ['default' => 'shop', 'connections' => ['shop' => $database + ['prefix' => '']], 'migrations' => 'migrations'],
            'logging' => ['default' => 'null', 'channels' => ['null' => ['driver' => 'monolog', 'handler' => Monolog\Handler\NullHandler::class]]],
            'queue' => ['default' => getenv('QUEUE_CONNECTION'), 'batching' => ['database' => 'shop', 'table' => 'job_batches'],
                'failed' => ['driver' => getenv('QUEUE_CONNECTION') === 'hipq' ? 'null' : 'database-uuids', 'database' => 'shop', 'table' => 'failed_jobs'],
                'connections' => ['hipq' => ['instance' => 'shop', 'config' => getenv('HIPQ_CONFIG'), 'command' => getenv('HIPQ') ?: 'hipq', 'type' => getenv('HIPQ_TYPE') ?: null],
                    'database' => ['driver' => 'database', 'table' => 'jobs', 'queue' => 'default', 'retry_after' => (int) (getenv('RETRY_AFTER') ?: 5)]]],
            'view' => ['paths' => [], 'compiled' => sys_get_temp_dir()],
        ]));
        $app->detectEnvironment(fn () => 'testing');
        date_default_timezone_set('Europe/Berlin');
    }
}

class ShopProvider extends Illuminate\Support\ServiceProvider
{
    public function boot()
    {
        RateLimiter::for('two', fn () => Limit::perMinute(2));
        Event::listen(App\Ordered::class, App\MailOrder::class);
    }
}

class ShopKernel extends Illuminate\Foundation\Console\Kernel
{
    protected $bootstrappers = [ShopConfig::class, Bootstrap\HandleExceptions::class, Bootstrap\RegisterFacades::class, Bootstrap\SetRequestForConsole::class,
        Bootstrap\RegisterProviders::class, Bootstrap\BootProviders::class];
}

$app = new Application(getenv('SHOP_DIR') ?: __DIR__);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, ShopKernel::class);
$app->singleton(ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
