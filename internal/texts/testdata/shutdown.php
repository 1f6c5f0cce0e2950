<?php
register_shutdown_function(function () { echo "bye\n"; });
send('example.org');
