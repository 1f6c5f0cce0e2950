<?php

// A shop on Symfony, with all of its configuration: from Debian's packages, or from Composer.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
ini_set('display_errors', 'stderr');
$composer = __DIR__.'/../../vendor/autoload.php';
if (is_file($composer)) {
    require $composer;
} else {
    foreach (['Symfony/Bundle/FrameworkBundle', 'Symfony/Component/Messenger', 'Symfony/Component/Messenger/Bridge/Doctrine', 'Symfony/Component/Console', 'Doctrine/DBAL', 'Doctrine/Persistence'] as $package) {
        require_once "$package/autoload.php";
    }
    require __DIR__.'/../../../php/src/Hipq.php';
    foreach (['HipqMessengerBundle', 'HipqStamp', 'HipqTransport', 'HipqTransportFactory', 'Stream'] as $class) {
        require __DIR__."/../../src/$class.php";
    }
}
require __DIR__.'/../../../php/tests/steady.php';
require __DIR__.'/messages.php';

use Doctrine\DBAL\Connection;
use Doctrine\DBAL\DriverManager;
use Doctrine\Persistence\ConnectionRegistry;
use Hipq\Messenger\HipqMessengerBundle;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\Config\Loader\LoaderInterface;
use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Messenger\Bridge\Doctrine\Transport\DoctrineTransportFactory;

/** In place of DoctrineBundle, which Debian doesn't have. */
class Registry implements ConnectionRegistry
{
    private ?Connection $connection = null;

    public function getConnection($name = null): object
    {
        return $this->connection ??= DriverManager::getConnection(['driver' => getenv('DB_DRIVER') ?: 'pdo_mysql', 'host' => '127.0.0.1', 'port' => (int) getenv('DB_PORT'), 'user' => 'root',
            'dbname' => getenv('DB_DATABASE'), 'charset' => 'utf8mb4']);
    }

    public function getDefaultConnectionName(): string { return 'default'; }

    public function getConnections(): array { return ['default' => $this->getConnection()]; }

    public function getConnectionNames(): array { return ['default' => 'default']; }
}

class ShopKernel extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        return [new FrameworkBundle(), new HipqMessengerBundle()];
    }

    public function getProjectDir(): string
    {
        return getenv('SHOP_DIR');
    }

    public function registerContainerConfiguration(LoaderInterface $loader): void
    {
        $loader->load(function (ContainerBuilder $container) {
            $hipq = 'hipq' === getenv('QUEUE');
            $timeout = getenv('REDELIVER_TIMEOUT') ?: 5;
            $transport = fn (string $queue) => [
                'dsn' => $hipq ? "hipq://$queue?instance=shop" : "doctrine://default?table_name=messages&queue_name=$queue&redeliver_timeout=$timeout",
                'options' => $hipq ? array_filter(['type' => getenv('HIPQ_TYPE')]) : [],
                'retry_strategy' => ['max_retries' => 2, 'delay' => 1000, 'multiplier' => 2] + (Kernel::VERSION_ID >= 70100 ? ['jitter' => 0] : []),
            ];
            $container->loadFromExtension('framework', [
                'secret' => 's', 'test' => false, 'http_method_override' => false,
                'messenger' => [
                    'transports' => ['default' => $transport('default'), 'emails' => $transport('emails')],
                    'routing' => [App\Work::class => 'default', App\Email::class => 'emails', App\Both::class => 'default', App\Batched::class => 'default'],
                ],
            ]);
            $container->register('doctrine', Registry::class)->setPublic(true);
            $container->register('doctrine.factory', DoctrineTransportFactory::class)->setArguments([new Reference('doctrine')])->addTag('messenger.transport_factory');
            $container->setAlias('transport', 'messenger.transport.default')->setPublic(true);
            $container->setAlias('bus', 'messenger.default_bus')->setPublic(true);
            foreach ([App\WorkHandler::class, App\EmailHandler::class, App\BothFirst::class, App\BothSecond::class, App\BatchHandler::class] as $handler) {
                $container->register($handler, $handler)->setAutowired(true)->setArgument('$registry', new Reference('doctrine'))->addTag('messenger.message_handler');
            }
        });
    }
}

return new ShopKernel('test', false);
