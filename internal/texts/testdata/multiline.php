<?php
throw new RuntimeException("the server said:\n  550 no such user\n  (mx1)");
