<?php

namespace Hipq\Messenger;

use Symfony\Component\DependencyInjection\ContainerBuilder;
use Symfony\Component\DependencyInjection\Reference;
use Symfony\Component\HttpKernel\Bundle\Bundle;

/** Registers the transports whose DSN begins with hipq://. */
final class HipqMessengerBundle extends Bundle
{
    public function build(ContainerBuilder $container): void
    {
        $container->register(HipqTransportFactory::class, HipqTransportFactory::class)
            ->setArguments([new Reference('doctrine')])
            ->addTag('messenger.transport_factory')
            ->addTag('kernel.event_subscriber');
    }
}
