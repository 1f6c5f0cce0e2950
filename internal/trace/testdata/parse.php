<?php
$to = ;
